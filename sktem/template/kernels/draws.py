"""Draws of the streams of images, for chains that are moved outside of a kernel."""

from numba import njit

from sktem.kernels.counter_random import fill_normals, stream_key, uniform
from sktem.kernels.options import OUTER

__all__ = ["fill_draws"]


@njit(**OUTER)
def fill_draws(seed, numbers, stride, after, normals, uniforms):
    """Fill the draws that the kernels make in each of several rounds.

    Round k of an image fills a vector by ``fill_normals`` from counter ``k * stride``
    on, and has the uniform draws of the counters from ``k * stride + after`` on.

    Parameters
    ----------
    seed : uint64
    numbers : ndarray of int64 of shape (n,)
        Indices of the images.
    stride, after : int
    normals : ndarray of shape (n, n_rounds, n_normals)
    uniforms : ndarray of shape (n, n_rounds, n_uniforms)
    """
    for row in range(len(numbers)):
        key = stream_key(seed, numbers[row])
        for k in range(normals.shape[1]):
            fill_normals(key, k * stride, normals[row, k])
            for j in range(uniforms.shape[2]):
                uniforms[row, k, j] = uniform(key, k * stride + after + j)
