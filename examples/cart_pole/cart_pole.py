"""Reinforcement learning: a pole on a cart learns to stay upright, by proximal policy optimisation.

Run: python examples/cart_pole/cart_pole.py [SEED] (a few seconds; it runs in a browser too).

The world is that of Barto, Sutton and Anderson (1983, "Neuronlike adaptive elements that can solve difficult learning
control problems"), without friction, with the numbers of Gymnasium's CartPole-v1. The player learns from many poles at
once, by PPO (Schulman et al. 2017, arXiv 1707.06347) with generalised advantages (Schulman et al. 2015,
arXiv 1506.02438).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

import pyapp
from pyapp import Tensor, nn, optim
from pyapp.distributions import Categorical
from pyapp.nn import functional as F

GRAVITY = 9.8  # m/s²
CART, POLE = 1.0, 0.1  # masses in kg
HALF_LENGTH = 0.5  # of the pole, in metres
FORCE = 10.0  # N, to the left or to the right
TIME_STEP = 0.02  # s
MOST_POSITION, MOST_ANGLE = 2.4, np.deg2rad(12.0)  # metres, radians: beyond them an attempt ends
MOST_STEPS = 500  # of an attempt


class CartPoles:
    """`count` carts, each with a pole. `states` (count, 4) float64: position, speed, angle and angular speed."""

    def __init__(self, count: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.states = self.random.uniform(-0.05, 0.05, (count, 4))
        self.steps = np.zeros(count, np.int64)  # of the attempts that run

    def push(self, actions: np.ndarray) -> None:
        """Moves each cart by one time step; actions (count,): 0 pushes to the left, 1 to the right."""
        position, speed, angle, turning = self.states.T  # (count,) each
        mass = CART + POLE
        pushed = np.where(actions == 1, FORCE, -FORCE) + POLE * HALF_LENGTH * turning**2 * np.sin(angle)  # (count,)
        resistance = HALF_LENGTH * (4 / 3 - POLE * np.cos(angle) ** 2 / mass)  # (count,)
        falling = (GRAVITY * np.sin(angle) - np.cos(angle) * pushed / mass) / resistance  # rad/s², (count,)
        sliding = (pushed - POLE * HALF_LENGTH * falling * np.cos(angle)) / mass  # m/s², (count,)
        self.states = self.states + TIME_STEP * np.stack([speed, sliding, turning, falling], 1)  # (count, 4)
        self.steps += 1

    def ended(self) -> tuple[np.ndarray, np.ndarray]:
        """Which poles have fallen, or left the track, and which attempts have lasted for all steps: (count,) bool."""
        fallen = (abs(self.states[:, 0]) > MOST_POSITION) | (abs(self.states[:, 2]) > MOST_ANGLE)
        return fallen, ~fallen & (self.steps >= MOST_STEPS)

    def begin_again(self, which: np.ndarray) -> None:
        """New attempts for those of `which` (count,) bool."""
        self.states[which] = self.random.uniform(-0.05, 0.05, (int(which.sum()), 4))
        self.steps[which] = 0


class Player(nn.Module):
    """Says how good the actions are in a state, and how good the state is."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))
        self.critic = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """states (N, 4) → logits of the actions (N, 2), values (N,)."""
        return self.actor(states), self.critic(states).squeeze(-1)


@dataclass
class Experience:
    """What N poles did in T steps; tensors (T, N), states (T, N, 4)."""

    states: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    lengths: list[int]  # of the attempts that ended


def play(player: Player, world: CartPoles, steps: int, discount: float = 0.99, smoothing: float = 0.95) -> Experience:
    """Lets the player act in every world for `steps` steps."""
    states: list[Tensor] = []
    actions: list[Tensor] = []
    log_probs: list[Tensor] = []
    values: list[Tensor] = []
    going: list[np.ndarray] = []
    gained: list[np.ndarray] = []
    lengths: list[int] = []
    with pyapp.no_grad():
        for _ in range(steps):
            seen = pyapp.from_numpy(world.states.astype(np.float32))  # (N, 4)
            logits, value = player(seen)
            chosen = Categorical(logits=logits)
            action = chosen.sample()  # (N,)
            world.push(action.numpy())
            fallen, lasted = world.ended()
            reward = np.ones(len(fallen), np.float32)
            if lasted.any():  # such an attempt would have gone on: the critic says how well
                after = player(pyapp.from_numpy(world.states.astype(np.float32)))[1].numpy()  # (N,)
                reward += discount * np.where(lasted, after, 0)
            over = fallen | lasted
            lengths += world.steps[over].tolist()
            world.begin_again(over)
            states.append(seen)
            actions.append(action)
            log_probs.append(chosen.log_prob(action))
            values.append(value)
            going.append(~over)
            gained.append(reward)
        following = player(pyapp.from_numpy(world.states.astype(np.float32)))[1].numpy()  # (N,)
    found = pyapp.stack(values).numpy()  # (T, N)
    advantages = np.zeros_like(found)  # (T, N)
    ahead = np.zeros_like(following)  # (N,)
    for t in reversed(range(steps)):
        error = gained[t] + discount * following * going[t] - found[t]
        advantages[t] = ahead = error + discount * smoothing * ahead * going[t]
        following = found[t]
    return Experience(
        pyapp.stack(states), pyapp.stack(actions), pyapp.stack(log_probs),
        pyapp.from_numpy(advantages), pyapp.from_numpy(advantages + found), lengths,
    )  # fmt: skip


def learn(player: Player, optimizer: optim.Optimizer, past: Experience, passes: int = 4, batch: int = 256) -> None:
    """Takes steps towards the actions that went better than the critic had said, but never far from the old policy."""
    states = past.states.flatten(0, 1)  # (T N, 4)
    actions, old, advantages, returns = (
        x.flatten() for x in (past.actions, past.log_probs, past.advantages, past.returns)
    )  # (T N,) each
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    for _ in range(passes):
        for rows in pyapp.randperm(len(states)).split(batch):
            logits, values = player(states[rows])
            chosen = Categorical(logits=logits)
            ratio = (chosen.log_prob(actions[rows]) - old[rows]).exp()  # (batch,)
            gain = pyapp.min(advantages[rows] * ratio, advantages[rows] * ratio.clamp(0.8, 1.2)).mean()
            loss = 0.5 * F.smooth_l1_loss(values, returns[rows]) - gain - 0.01 * chosen.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(player.parameters(), 0.5)
            optimizer.step()


def balance(player: Player, count: int, seed: int) -> float:
    """The mean number of steps that the player balances `count` poles, of 500, with the action that it finds best."""
    world = CartPoles(count, seed)
    standing = np.ones(count, bool)
    steps = 0
    with pyapp.no_grad():
        for _ in range(MOST_STEPS):
            world.push(player.actor(pyapp.from_numpy(world.states.astype(np.float32))).argmax(-1).numpy())
            standing &= ~world.ended()[0]
            steps += int(standing.sum())
            if not standing.any():
                break
    return steps / count


def main(seed: int = 1, rounds: int = 30, report: bool = True) -> Player:
    """Trains a player and returns it."""
    pyapp.manual_seed(seed)
    world, player = CartPoles(32, seed), Player()
    optimizer = optim.Adam(player.parameters(), lr=0.01)
    schedule = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, rounds)
    for number in range(1, rounds + 1):
        past = play(player, world, 32)
        learn(player, optimizer, past)
        schedule.step()
        if report and number % 5 == 0 and past.lengths:
            print(f"round {number:2}: an attempt lasts for {np.mean(past.lengths):.0f} steps")
    return player


if __name__ == "__main__":
    chosen_seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print(f"balanced for {balance(main(chosen_seed), 16, 1000):.0f} of {MOST_STEPS} steps")
