# %% [markdown]
# # Teach the story model
#
# Train the story model further on your own sentences with LoRA, and open it in the Story view.
#
# The model of the Story view has 1.2 million weights. We leave them as they are, and learn a small *adapter* beside
# them from a few short stories. This takes half a minute, in this tab.

# %%
import pyapp
from pyapp import lab, nn
from pyapp.adapters import LoraConfig, add_adapter, merge_and_unload, save_adapter
from pyapp.events import Token
from pyapp.models import load_model
from pyapp.models.loading.writing_folder import write_model
from pyapp.text.generation.generate import generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.session import Session

stories = """
Once upon a time, there was a little robot named Zip. Zip lived on the moon. Every
night, Zip looked at the blue Earth and wished for a friend. One night, a shiny rocket
landed in the dust. A girl named Ada came out. "Hello, robot," said Ada. "Do you want to
play?" Zip was so happy that its lamps blinked.

Zip the robot found a small green stone on the moon. The stone was warm and it hummed a
song. Zip put the stone in its pocket and rolled home. At night the stone shone like a
lamp. "You are my night light," said Zip. Zip was not afraid of the dark any more.

One day, Zip the robot had a flat wheel. It could not roll. Ada came with her red
toolbox. She pumped air into the wheel. "Try now," said Ada. Zip rolled round and round
the crater. "Thank you, Ada," said Zip. "You are a good friend."

Ada and Zip wanted to bake a cake on the moon. They mixed flour, sugar and moon dust.
The cake flew up to the ceiling, for things are light on the moon. Zip stretched its
long arm and caught it. They laughed and ate the flying cake.

Zip the robot looked for a star that had fallen down. It looked behind the rocket and
under the ladder. At last it found the star in a crater. The star was cold. Zip held it
close until it was warm. Then the star jumped up and flew back to the sky. "Good night,
star," said Zip.
"""

texts = [" ".join(text.split()) for text in stories.split("\n\n") if text.strip()]
print(f"{len(texts)} stories, {sum(len(text.split()) for text in texts)} words")

# %% [markdown]
# ## The model, before
#
# Change the stories above as you like: other heroes, another place, another language. A blank line ends a story. The
# model reads *tokens*, pieces of words; rare words have more of them. Here is what it makes of a robot so far.

# %%
loaded = load_model("stories")
model, tokenizer = loaded.model, loaded.tokenizer
rows = [tokenizer.encode(text, eos=True)[: model.config.max_seq_len] for text in texts]
beginning = " ".join(texts[0].split()[:10])


def write(length=60):
    """The likeliest continuation of the beginning."""
    options = SamplingOptions(max_new_tokens=length, temperature=0.0)
    events = generate(Session(model), tokenizer, beginning, options)
    return beginning + "".join(event.text for event in events if isinstance(event, Token))


print([tokenizer.decode([token]) for token in rows[0][:12]])
before = write()
print(before)

# %% [markdown]
# ## The adapter
#
# *LoRA* adds to each matrix W of the model a product B A of two thin matrices, and trains these alone. B begins with
# zeros, so at first nothing changes. `r` is how thin they are: a larger `r` can learn more.

# %%
pyapp.manual_seed(0)
adapted = add_adapter(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
trained = [value for value in model.parameters() if value.requires_grad]
count = sum(value.numel() for value in trained)
whole = sum(value.numel() for value in model.parameters()) - count
print(f"{len(adapted)} matrices are adapted: {count:,} numbers are trained, beside the {whole:,} of the model.")

# %% [markdown]
# ## Training
#
# At each place the model must name the next token; the loss is how surprised it is. Every 15 steps it writes the
# beginning of the first story on. **Stop** ends the training; run the cell again to go on.

# %%
STEPS, ROWS = 60, 3

optimizer = pyapp.optim.AdamW(trained, lr=5e-3, weight_decay=0.0)
curves = lab.Curves("Surprise", "step", "nats per token")
model.train()
for step in range(STEPS):
    batch = [rows[(step * ROWS + i) % len(rows)] for i in range(ROWS)]
    length = max(map(len, batch))
    tokens = pyapp.tensor([row + [0] * (length - len(row)) for row in batch])  # (ROWS, length)
    targets = pyapp.tensor([row[1:] + [-100] * (length - len(row) + 1) for row in batch])  # (ROWS, length)
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=-100)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    curves.add(step + 1, loss=loss.item())
    if (step + 1) % 15 == 0:
        print(f"after {step + 1} steps: {write(25)}")
curves.draw()
model.eval()
print(f"the loss is {loss.item():.2f} now")

# %% [markdown]
# ## What it writes now

# %%
print("BEFORE:", before, "", "NOW:", write(), sep="\n")

# %% [markdown]
# ## Into the Story view
#
# The adapter alone is a small file; other programs read it too (it has the form of *peft*). For the Story view we add
# it to the weights and write the whole model: a llama2.c checkpoint with its tokenizer. Press the button, then write a
# story there. The model is in its list of models, and **Keep here** stores it in this browser.

# %%
save_adapter(model, "adapter")
merge_and_unload(model)
write_model(loaded, "my-stories")
lab.open_in("story", "my-stories")
