# %% [markdown]
# # An op of your own
#
# Define a new operation with its gradient, and let a model learn with it.
#
# An **op** is a function of tensors with a name. If it is written with other ops, its gradient is known already. Here is
# a soft clip: nearly the identity around 0, and never beyond the limit.

# %%
import pyapp
from pyapp import keras, lab
from pyapp.autograd import gradcheck
from pyapp.extension import op


@op(name="mine::soft_clip")
def soft_clip(x, limit=1.0):
    return x / (1 + x.abs() / limit)


x = pyapp.linspace(-6, 6, 121)
lab.plot(x, {"soft_clip": soft_clip(x), "limit 3": soft_clip(x, 3.0)}, title="A soft clip", x_label="x")

# %% [markdown]
# ## Its gradient
#
# The gradient that follows from the definition takes several steps. We know a shorter one, so we say it: `g` is the
# gradient of the result. `gradcheck` compares it with differences of the function itself.

# %%
@soft_clip.gradient
def _(g, y, x, limit=1.0):
    return (g / (x.abs() / limit + 1).square(),)


probe = pyapp.randn(5, dtype=pyapp.float64, requires_grad=True)
print("the gradient is right:", gradcheck(soft_clip, (probe,)))

# %% [markdown]
# ## In a model
#
# Use it where other models have `relu` or `tanh`. The task: is a point inside the ring?

# %%
keras.utils.set_random_seed(1)
points = pyapp.randn(600, 2)  # (600, 2)
inside = (points.square().sum(1, True) < 1.2).float()  # (600, 1)
model = keras.Sequential(
    [keras.layers.Dense(24, activation=soft_clip), keras.layers.Dense(24, activation=soft_clip), keras.layers.Dense(1)]
)
model.compile(
    optimizer=keras.optimizers.Adam(0.01),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
)
model.fit(points, inside, batch_size=64, epochs=30, verbose=0, callbacks=[lab.TrainingCurves()])
loss, accuracy = model.evaluate(points, inside, verbose=0)
print(f"{accuracy:.1%} of the points are right.")
