# %% [markdown]
# # Tensors and gradients
#
# Numbers in arrays, and how a result changes with them.
#
# A **tensor** is an array of numbers. It has a *shape* and a *type*. Press **Run all** above, or click into a cell
# and press **Shift+Enter**. Change the code and run it again: nothing can break.

# %%
import pyapp
from pyapp import lab

x = pyapp.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
print("shape:", tuple(x.shape), " type:", x.dtype)
x * 10 + 1

# %% [markdown]
# Operations work on all numbers at once. `@` multiplies matrices, and shapes that do not fit are an error that says so.

# %%
print("sum of all:", x.sum().item())
print("mean of each column:", x.mean(dim=0).tolist())
x @ x.T

# %% [markdown]
# ## Gradients
#
# A tensor with `requires_grad=True` remembers what is computed from it. `backward()` then finds the **gradient**: how
# much the result changes when each number grows a little. Here the result is the sum of squares, so it is `2 * w`.

# %%
w = pyapp.tensor([3.0, -1.0, 0.5], requires_grad=True)
loss = (w * w).sum()
loss.backward()
print("loss:", loss.item())
print("gradient:", w.grad.tolist())

# %% [markdown]
# ## Going downhill
#
# To make a result smaller, take small steps against the gradient. This is how all models here learn. The function below
# has two valleys. Where does the ball come to rest? Change `start`, and run the cell again.


# %%
def height(x):
    return 0.1 * x**4 - x**2 + 0.3 * x


start, step = 0.5, 0.1
ball = pyapp.tensor(start, requires_grad=True)
path = [ball.item()]
for _ in range(40):
    ball.grad = None
    height(ball).backward()
    with pyapp.no_grad():
        ball -= step * ball.grad
    path.append(ball.item())

lab.plot({"where the ball is": path}, title="Gradient descent", x_label="step")
print(f"The ball rests at {path[-1]:.3f}, where the slope is {ball.grad.item():.1e}.")
places = [i / 20 for i in range(-60, 61)]
lab.plot(places, {"height": [height(place) for place in places]}, title="The valleys", x_label="x")

# %% [markdown]
# Next lesson: fit a line through points, first by hand and then with one call.
