"""The joint Newton step of TASK's M-step, with the bucket offsets eliminated."""

import numpy as np

from arena_robot.ranking.base import Floats

TAU_RIDGE = 1e-6


def joint_step(theta: Floats, psi: Floats, tau: Floats, slope: Floats, bend: Floats,
               ridges: tuple[float, float], with_tau: bool) -> tuple[Floats, Floats, Floats]:
    """
    Return the Newton steps in θ (n,), ψ (n, T) and τ (T,).

    ``slope`` (n, T) and ``bend``, (n, T) or (T, n, n), are gradient and minus Hessian by z;
    ``ridges`` are λ_θ, λ_ψ. ψ and then τ are eliminated, which leaves a system of n unknowns; a
    tiny ridge on τ keeps empty buckets still.
    """
    l2_theta, l2_psi = ridges
    g_psi = slope - l2_psi * psi
    g_theta = slope.sum(axis=1) - l2_theta * theta
    g_tau = -slope.sum(axis=0) - TAU_RIDGE * tau
    if bend.ndim == 2:
        return _diagonal(bend, g_theta, g_psi, g_tau, l2_theta, l2_psi)
    return _full(bend, g_theta, g_psi, g_tau, l2_theta, l2_psi, with_tau)


def _diagonal(h: Floats, g_theta: Floats, g_psi: Floats, g_tau: Floats, l2_theta: float,
              l2_psi: float) -> tuple[Floats, Floats, Floats]:
    inner = h + l2_psi
    left = h * (l2_psi / inner)
    moved = h * g_psi / inner
    across = left.sum(axis=0) + TAU_RIDGE
    r_theta = g_theta - moved.sum(axis=1)
    r_tau = g_tau + moved.sum(axis=0)
    scaled = left / across
    matrix = -(scaled @ left.T)
    matrix.flat[::len(h) + 1] += left.sum(axis=1) + l2_theta
    d_theta = np.linalg.solve(matrix, r_theta + scaled @ r_tau)
    d_tau = (r_tau + d_theta @ left) / across
    d_psi = (g_psi - h * (d_theta[:, None] - d_tau)) / inner
    return d_theta, d_psi, d_tau


def _full(h: Floats, g_theta: Floats, g_psi: Floats, g_tau: Floats, l2_theta: float,
          l2_psi: float, with_tau: bool) -> tuple[Floats, Floats, Floats]:
    n = h.shape[1]
    inverse = np.linalg.inv(h + l2_psi * np.eye(n))
    left = l2_psi * (inverse @ h)
    moved = (h @ (inverse @ g_psi.T[:, :, None]))[:, :, 0]
    r_theta = g_theta - moved.sum(axis=0)
    matrix = left.sum(axis=0) + l2_theta * np.eye(n)
    d_tau = np.zeros(len(h))
    if with_tau:
        border = left.sum(axis=2)
        across = border.sum(axis=1) + TAU_RIDGE
        r_tau = g_tau + moved.sum(axis=1)
        scaled = border / across[:, None]
        d_theta = np.linalg.solve(matrix - scaled.T @ border, r_theta + r_tau @ scaled)
        d_tau = (r_tau + border @ d_theta) / across
    else:
        d_theta = np.linalg.solve(matrix, r_theta)
    pull = (h @ (d_theta[None, :, None] - d_tau[:, None, None]))[:, :, 0]
    d_psi = (inverse @ (g_psi.T - pull)[:, :, None])[:, :, 0].T
    return d_theta, d_psi, d_tau
