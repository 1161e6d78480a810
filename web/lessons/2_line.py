# %% [markdown]
# # A line through points
#
# Fit a line by hand, then with one call of `fit`.
#
# We make points near the line `y = 2 x - 1`, and then forget the 2 and the -1. Can they be found again from the points?

# %%
import pyapp
from pyapp import keras, lab

keras.utils.set_random_seed(7)
x = pyapp.rand(200, 1) * 4 - 2  # (200, 1)
y = 2 * x - 1 + 0.4 * pyapp.randn(200, 1)  # (200, 1)
lab.plot(x[:, 0], {"points": y[:, 0]}, points=True, x_label="x", title="200 points")

# %% [markdown]
# ## By hand
#
# The line has two numbers, a slope and an offset. The *loss* is the mean of the squared distances. Each step moves both
# numbers a little against their gradients.

# %%
slope = pyapp.zeros(1, requires_grad=True)
offset = pyapp.zeros(1, requires_grad=True)
curves = lab.Curves("By hand", "step")
for step in range(1, 101):
    slope.grad = offset.grad = None
    loss = (slope * x + offset - y).square().mean()
    loss.backward()
    with pyapp.no_grad():
        slope -= 0.1 * slope.grad
        offset -= 0.1 * offset.grad
    curves.add(step, loss=loss.item(), slope=slope.item(), offset=offset.item())
curves.draw()
print(f"y = {slope.item():.2f} x + {offset.item():.2f}")

# %% [markdown]
# ## With a model
#
# A dense layer with one input and one output is exactly such a line. `compile` says how to learn, `fit` does it. Cells
# below can use everything that cells above have made.

# %%
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
history = model.fit(x, y, batch_size=50, epochs=15, verbose=0, callbacks=[lab.TrainingCurves()])
weight, bias = model.get_weights()
print(f"y = {weight.item():.2f} x + {bias.item():.2f}, after {len(history.history['loss'])} epochs")

# %% [markdown]
# ## Not only lines
#
# With more layers the same call fits curves. Try `"relu"` in place of `"tanh"`, or fewer units.

# %%
wave = pyapp.sin(3 * x) + 0.1 * pyapp.randn(200, 1)  # (200, 1)
bent = keras.Sequential([keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1)])
bent.compile(optimizer=keras.optimizers.Adam(0.03), loss="mse")
bent.fit(x, wave, batch_size=50, epochs=60, verbose=0)
lab.plot(
    x[:, 0],
    {"points": wave[:, 0], "model": bent.predict(x, verbose=0)[:, 0]},
    points=True, x_label="x", title="A bent line",
)  # fmt: skip
print("mean squared distance:", round(bent.evaluate(x, wave, verbose=0), 4))
