# %% [markdown]
# # Read digits
#
# Train a small convolutional network in this tab, then draw a digit and have it named.
#
# The data are 1,797 digits that people wrote by hand, 8 × 8 pixels each. We keep every fifth one apart: the network
# never learns from these 360, so they show how well it reads digits that it has not seen.

# %%
from pyapp import datasets, keras, lab

digits = datasets.digits()
images = digits.images.numpy().reshape(-1, 8, 8, 1) / 16  # (1797, 8, 8, 1): from 0, paper, to 1, ink
labels = digits.labels.numpy()  # (1797,)
apart = [i % 5 == 0 for i in range(len(labels))]
kept = [not i for i in apart]
x, y = images[kept].astype("float32"), labels[kept]  # (1437, 8, 8, 1), (1437,)
held_out, answers = images[apart].astype("float32"), labels[apart]  # (360, 8, 8, 1), (360,)
lab.image(1 - x[:40], width=400, caption=f"The first 40: {' '.join(map(str, y[:40]))}")

# %% [markdown]
# ## The network
#
# *Convolutions* look for small patterns, such as edges and bows, anywhere in the picture; the second one looks at every
# other place only (`strides=2`). *Dropout* hides some of the results while the network learns, so that it does not rely
# on a few. The last layer has ten outputs, one for each digit.

# %%
keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.layers.Conv2D(16, 3, activation="relu", padding="same"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu", padding="same"),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(4e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

# %% [markdown]
# ## Training
#
# Each *epoch* goes once through all training digits. Watch the curves: `val_` is measured on the digits kept apart. You
# can press **Stop** at any time and run the cell again: it goes on from where it was.

# %%
keep = keras.callbacks.ModelCheckpoint("digits.keras")  # stored with the notebook after each epoch
watch = lab.TrainingCurves()
model.fit(x, y, batch_size=32, epochs=12, validation_data=(held_out, answers), verbose=0, callbacks=[watch, keep])
loss, accuracy = model.evaluate(held_out, answers, verbose=0)
print(f"{accuracy:.1%} of the digits that it has not seen are read correctly.")

# %% [markdown]
# ## Your turn
#
# Draw a digit with the mouse or a finger. The drawing is moved to the middle and made as large as those of the data.


# %%
def read(pixels):
    """Names the digit of a drawing (8, 8)."""
    logits = model(pixels[None, ..., None])[0]  # (10,)
    chances = logits.softmax(0).tolist()
    best = max(range(10), key=lambda digit: chances[digit])
    print(f"This is a {best} ({chances[best]:.0%}).")
    lab.image(1 - pixels, width=96, caption="what the network sees")


pad = lab.drawing(8, read, "Draw a digit from 0 to 9")
