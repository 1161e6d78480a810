"""Reinforcement learning of several kinds: PPO with generalised advantages, soft actor-critic with squashed normals and
target networks moved by lists of tensors, and REINFORCE with a Beta policy. The worlds' answers are given."""

import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Beta, Categorical, Independent, Normal, TransformedDistribution, kl_divergence
from torch.distributions.transforms import AffineTransform, TanhTransform


def layer_init(layer, std=2**0.5, bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, size, actions):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(size, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0))
        self.actor = nn.Sequential(
            layer_init(nn.Linear(size, 16)), nn.Tanh(), layer_init(nn.Linear(16, actions), std=0.01)
        )

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


def ppo(fill, rng):
    agent = Agent(4, 3)
    fill(agent)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
    steps, envs = 8, 4
    obs = torch.from_numpy(rng.randn(steps, envs, 4)).float()
    rewards = torch.tensor(rng.randn(steps, envs), dtype=torch.float)
    dones = torch.tensor(rng.rand(steps, envs) < 0.2).float()
    actions = torch.as_tensor(rng.randint(0, 3, (steps, envs)))
    with torch.no_grad():
        _, logprobs, _, values = agent.get_action_and_value(obs.flatten(0, 1), actions.flatten())
        logprobs, values = logprobs.view(steps, envs), values.view(steps, envs)
        next_value = agent.get_value(obs[-1]).reshape(1, -1)
        advantages = torch.zeros_like(rewards)
        lastgaelam = 0
        for t in reversed(range(steps)):
            nextnonterminal = 1.0 - (dones[t + 1] if t + 1 < steps else dones[-1])
            nextvalues = values[t + 1] if t + 1 < steps else next_value
            delta = rewards[t] + 0.99 * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + 0.99 * 0.95 * nextnonterminal * lastgaelam
        returns = advantages + values
    b = {"obs": obs, "logprobs": logprobs, "actions": actions, "advantages": advantages, "returns": returns}
    b = {name: value.reshape((-1, *value.shape[2:])) for name, value in b.items()}
    b_values = values.reshape(-1)
    found = []
    b_inds = np.arange(steps * envs)
    for _ in range(2):
        for start in range(0, steps * envs, 16):
            mb_inds = b_inds[start : start + 16]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                b["obs"][mb_inds], b["actions"].long()[mb_inds]
            )
            logratio = newlogprob - b["logprobs"][mb_inds]
            ratio = logratio.exp()
            with torch.no_grad():
                old_approx_kl = (-logratio).mean()
                clipfrac = ((ratio - 1.0).abs() > 0.02).float().mean().item()
            mb = b["advantages"][mb_inds]
            mb = (mb - mb.mean()) / (mb.std() + 1e-8)
            pg_loss = torch.max(-mb * ratio, -mb * torch.clamp(ratio, 1 - 0.2, 1 + 0.2)).mean()
            newvalue = newvalue.view(-1)
            v_clipped = b_values[mb_inds] + torch.clamp(newvalue - b_values[mb_inds], -0.2, 0.2)
            v_loss = torch.max((newvalue - b["returns"][mb_inds]) ** 2, (v_clipped - b["returns"][mb_inds]) ** 2)
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * 0.5 * v_loss.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            found += [loss.item(), old_approx_kl.item(), clipfrac]
    y_pred, y_true = b_values.cpu().numpy(), b["returns"].cpu().numpy()
    return [*found, float(1 - np.var(y_true - y_pred) / np.var(y_true))]


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 8)
        self.mean, self.log_std = nn.Linear(8, 2), nn.Linear(8, 2)
        self.register_buffer("action_scale", torch.tensor([2.0, 0.5]))
        self.register_buffer("action_bias", torch.tensor([0.0, 0.25]))

    def forward(self, x):
        x = F.mish(self.fc(x))
        log_std = torch.tanh(self.log_std(x))
        log_std = -5 + 0.5 * (2 - -5) * (log_std + 1)
        normal = Independent(Normal(self.mean(x), log_std.exp()), 1)
        return TransformedDistribution(
            normal, [TanhTransform(cache_size=1), AffineTransform(self.action_bias, self.action_scale, event_dim=1)]
        )


def sac(fill, rng):
    actor = Actor()
    fill(actor)
    q = nn.ModuleList(nn.Sequential(nn.Linear(5, 8), nn.SiLU(), nn.Linear(8, 1)) for _ in range(2))
    fill(q)
    target = copy.deepcopy(q).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True)
    q_optimizer = torch.optim.Adam(list(q.parameters()), lr=1e-2)
    actor_optimizer = torch.optim.Adam(list(actor.parameters()), lr=1e-2)
    a_optimizer = torch.optim.Adam([log_alpha], lr=1e-2)
    found = []
    for _ in range(3):
        s, s2 = (torch.tensor(rng.randn(6, 3), dtype=torch.float32) for _ in range(2))
        r, done = torch.tensor(rng.rand(6), dtype=torch.float32), torch.tensor(rng.rand(6) < 0.3)
        policy = actor(s2)
        with torch.no_grad():
            a2 = policy.base_dist.base_dist.loc  # the mean, so that no random numbers are needed
            for transform in policy.transforms:
                a2 = transform(a2)
            logp = policy.log_prob(a2)
            pair = torch.stack([one(torch.cat([s2, a2], 1)).squeeze(-1) for one in target])
            y = r + ~done * 0.99 * (pair.amin(0) - log_alpha.exp() * logp)
        a = a2.roll(1, 0)
        q_loss = sum(F.mse_loss(one(torch.cat([s, a], 1)).view(-1), y) for one in q)
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()
        policy = actor(s)
        squashed = policy.base_dist.mean
        for transform in policy.transforms:
            squashed = transform(squashed)
        logp = policy.log_prob(squashed)
        for p in q.parameters():
            p.requires_grad_(False)
        actor_loss = (log_alpha.detach().exp() * logp - q[0](torch.cat([s, squashed], 1)).squeeze(1)).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        for p in q.parameters():
            p.requires_grad_(True)
        alpha_loss = (-log_alpha.exp() * (logp.detach() - 2)).mean()
        a_optimizer.zero_grad()
        alpha_loss.backward()
        a_optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(target.parameters()), list(q.parameters()), 0.05)
        norms = torch._foreach_norm([p.grad for p in actor.parameters()])
        found += [q_loss.item(), actor_loss.item(), alpha_loss.item(), torch.stack(norms).norm().item()]
    moved = torch._foreach_sub(list(q.parameters()), list(target.parameters()))
    torch._foreach_mul_(moved, 0.5)
    return [*found, sum(m.abs().sum().item() for m in moved)]


def reinforce(fill, rng):
    net = nn.Linear(3, 2)
    fill(net)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-2, momentum=0.5, centered=True)
    found, old = [], None
    for _ in range(3):
        s = torch.tensor(rng.randn(5, 3)).to(torch.float32)
        policy = Beta(*(F.softplus(net(s)) + 1).unbind(-1))
        a, reward = torch.tensor(rng.rand(5) * 0.8 + 0.1).float(), torch.tensor(rng.randn(5)).float()
        divergence = kl_divergence(policy, Beta(torch.ones(5), torch.full((5,), 2.0)))
        loss = -(policy.log_prob(a) * reward).mean() - 0.01 * policy.entropy().sum() + divergence.mean()
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        found += [loss.item(), policy.mean.sum().item(), policy.mode.mean().item()]
        old = policy
    return [*found, old.stddev.sum().item()]


def main(fill):
    rng = np.random.RandomState(0)
    return ppo(fill, rng) + sac(fill, rng) + reinforce(fill, rng)
