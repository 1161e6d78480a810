# %% [markdown]
# # A tiny GPT
#
# Build a transformer that writes letter by letter, on our tales or on a text of yours.
#
# The tales are made by the same generator as the texts of the embedded story model.
#
# The model reads some letters and says which one comes next. That is all; texts come from doing it again and again. To
# use a text of your own, drop a `.txt` file on this page: the newest one below **Files** is read. A hundred
# kilobytes are enough.

# %%
from pathlib import Path

import numpy as np

import pyapp
from pyapp import keras, lab, nn

files = sorted(Path().glob("*.txt"), key=lambda file: (file.name != "tales.txt", file.stat().st_mtime))
text = files[-1].read_text(errors="replace")[:500_000]
letters = sorted(set(text))
number = {letter: i for i, letter in enumerate(letters)}
ids = np.array([number[letter] for letter in text])  # (length of the text,)
print(f"{files[-1]}: {len(text):,} letters, {len(letters)} different ones. It begins: {text[:60]!r}")

# %% [markdown]
# ## The model
#
# *Attention* lets each letter look back at the ones before it and take what it needs. Two such blocks are enough to
# learn words and short sentences. `CONTEXT` is how far it looks back.

# %%
CONTEXT, WIDTH, HEADS = 64, 64, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):  # (B, T, WIDTH)
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, HEADS, T, WIDTH / HEADS)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class TinyGPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(len(letters), WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(letters))

    def forward(self, tokens):  # (B, T) → (B, T, number of letters)
        places = pyapp.arange(tokens.shape[1])
        return self.head(self.norm(self.blocks(self.letters(tokens) + self.places(places))))


# %% [markdown]
# ## Training
#
# Each example is a piece of the text, and the same piece one letter later: at every place the model must name the next
# letter. Watch the loss: guessing blindly costs about 4; texts become readable below 1.8. Take more `STEPS` to learn
# longer.

# %%
STEPS, BATCH = 300, 16

pyapp.manual_seed(0)
gpt = TinyGPT()
model = keras.Sequential([keras.Input((CONTEXT,), dtype="int64"), gpt])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.AdamW(3e-3), loss=loss)


def pieces(seed):
    """Batches of pieces (BATCH, CONTEXT) and of the letters that follow."""
    random = np.random.default_rng(seed)
    while True:
        starts = random.integers(0, len(ids) - CONTEXT - 1, BATCH)
        windows = np.stack([ids[start : start + CONTEXT + 1] for start in starts])  # (BATCH, CONTEXT + 1)
        yield windows[:, :-1], windows[:, 1:]


watch = lab.TrainingCurves()
history = model.fit(pieces(1), steps_per_epoch=10, epochs=STEPS // 10, verbose=0, callbacks=[watch])

# %% [markdown]
# ## Writing
#
# `temperature` says how daring the choices are: 0.2 is careful, 1.2 is wild.


# %%
def write(beginning, length=300, temperature=0.7):
    tokens = [number[letter] for letter in beginning if letter in number] or [0]
    random = np.random.default_rng()
    print(beginning, end="", flush=True)
    for _ in range(length):
        with pyapp.no_grad():
            logits = gpt(pyapp.tensor([tokens[-CONTEXT:]]))[0, -1]  # (number of letters,)
        chances = (logits / temperature).softmax(0).numpy().astype(float)
        tokens.append(int(random.choice(len(letters), p=chances / chances.sum())))
        print(letters[tokens[-1]], end="", flush=True)
    print()


write("Once upon a time")
