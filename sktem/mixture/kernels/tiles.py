"""Log-densities of Gaussian components over tiles of rows.

A tile holds up to `LANES` rows, transposed: feature (or component) by row, flat,
each `LANES` after the one before. Rows thus fill the SIMD lanes, whatever the number
of features. The stride is a constant so that the compiler sees that the columns it
reads together cannot overlap the one that it writes.

Precisions arrive multiplied by sqrt(1/2), so that minus the squared length of
``z @ precision - offset`` is the exponent of the density.

Functions are few and large, and arrays come from the caller, because the
compiler spends more time on each function than on its loops.
"""

from numba import njit

from sktem.kernels import options
from sktem.kernels.exponential import (
    expand_exponent,
    logarithm,
    reduce_exponent,
)

LANES = 128
# Loops run over a multiple of this many rows; the rows beyond the data are zeros.
LANE_GROUP = 16
# A mask that lets the compiler drop the loop for a remainder.
WHOLE_GROUPS = -LANE_GROUP

# Expressions of whole arrays are not sought.
OUTER = {**options.OUTER, "no_rewrites": True}
# Options of functions that only kernels call.
INNER = {**options.INNER, "no_rewrites": True}
# Options of parts of one function: a call with tuples of arrays would cost half a
# microsecond.
PART = {**INNER, "inline": "always"}
FAST = {"contract", "reassoc", "nsz"}


@njit(**INNER)
def pack_rows(X, start, stop, centre, bound, width, z):
    """Transpose rows of X, about the centre, into a tile.

    Equal ``z[:d, :m] = np.clip(X[start:stop] - centre, -bound, bound).T`` and
    ``z[width] = 1``, with zeros in the lanes from m = stop - start up to the next
    lane group. The number of lanes in use is returned.
    """
    n_rows = stop - start
    n_lanes = (n_rows + LANE_GROUP - 1) & WHOLE_GROUPS
    for i in range(X.shape[1]):
        origin = centre[i]
        row = z[i * LANES : (i + 1) * LANES]
        for lane in range(n_rows):
            value = X[start + lane, i] - origin
            value = value if value < bound else bound
            row[lane] = value if value > -bound else -bound
        for lane in range(n_rows, n_lanes):
            row[lane] = 0.0
    ones = z[width * LANES : (width + 1) * LANES]
    for lane in range(n_lanes):
        ones[lane] = 1.0
    return n_lanes


@njit(**INNER, fastmath=FAST)
def transform_tile(z, n_lanes, matrix, out):
    """Equal ``out = (z.T @ np.triu(matrix)).T``."""
    n_lanes &= WHOLE_GROUPS
    for j in range(matrix.shape[0]):
        target = out[j * LANES : (j + 1) * LANES]
        for lane in range(n_lanes):
            target[lane] = 0.0
        for i in range(j + 1):
            source = z[i * LANES : (i + 1) * LANES]
            factor = matrix[i, j]
            for lane in range(n_lanes):
                target[lane] += factor * source[lane]


@njit(**INNER, fastmath=FAST)
def full_log_joint(z, n_lanes, precisions, offsets, constants, y, joint):
    """Equal ``joint[k] = constants[k] - ((z.T @ P[k] - offsets[k]) ** 2).sum(1)``.

    The upper triangular P[k] are stacked in the rows of `precisions`; their width is
    2 or a multiple of 4. Columns are taken four at a time: their products with the
    rows above the diagonal block go to `y`, those with the block itself to `joint`.
    """
    n_lanes &= WHOLE_GROUPS
    width = offsets.shape[1]
    for k in range(constants.shape[0]):
        constant = constants[k]
        p = precisions[k * width : (k + 1) * width]
        o = offsets[k]
        target = joint[k * LANES : (k + 1) * LANES]
        if width == 2:
            p00, p01, p11, o0, o1 = p[0, 0], p[0, 1], p[1, 1], o[0], o[1]
            for lane in range(n_lanes):
                a, b = z[lane], z[lane + LANES]
                t = p00 * a - o0
                u = p01 * a + p11 * b - o1
                target[lane] = constant - (t * t + u * u)
            continue
        for j in range(0, width, 4):
            o0, o1, o2, o3 = o[j], o[j + 1], o[j + 2], o[j + 3]
            for i in range(0, j, 4):
                above = z[i * LANES : (i + 4) * LANES]
                q = p[i : i + 4, j : j + 4]
                p00, p10, p20, p30 = q[0, 0], q[1, 0], q[2, 0], q[3, 0]
                p01, p11, p21, p31 = q[0, 1], q[1, 1], q[2, 1], q[3, 1]
                p02, p12, p22, p32 = q[0, 2], q[1, 2], q[2, 2], q[3, 2]
                p03, p13, p23, p33 = q[0, 3], q[1, 3], q[2, 3], q[3, 3]
                if i == 0:
                    for lane in range(n_lanes):
                        a, b = above[lane], above[lane + LANES]
                        c, d = above[lane + 2 * LANES], above[lane + 3 * LANES]
                        y[lane] = p00 * a + p10 * b + p20 * c + p30 * d - o0
                        y[lane + LANES] = p01 * a + p11 * b + p21 * c + p31 * d - o1
                        y[lane + 2 * LANES] = p02 * a + p12 * b + p22 * c + p32 * d - o2
                        y[lane + 3 * LANES] = p03 * a + p13 * b + p23 * c + p33 * d - o3
                else:
                    for lane in range(n_lanes):
                        a, b = above[lane], above[lane + LANES]
                        c, d = above[lane + 2 * LANES], above[lane + 3 * LANES]
                        y[lane] += p00 * a + p10 * b + p20 * c + p30 * d
                        y[lane + LANES] += p01 * a + p11 * b + p21 * c + p31 * d
                        y[lane + 2 * LANES] += p02 * a + p12 * b + p22 * c + p32 * d
                        y[lane + 3 * LANES] += p03 * a + p13 * b + p23 * c + p33 * d
            block = z[j * LANES : (j + 4) * LANES]
            q = p[j : j + 4, j : j + 4]
            p00, p01, p02, p03 = q[0, 0], q[0, 1], q[0, 2], q[0, 3]
            p11, p12, p13 = q[1, 1], q[1, 2], q[1, 3]
            p22, p23, p33 = q[2, 2], q[2, 3], q[3, 3]
            if j == 0:
                for lane in range(n_lanes):
                    a, b = block[lane], block[lane + LANES]
                    c, d = block[lane + 2 * LANES], block[lane + 3 * LANES]
                    t = p00 * a - o0
                    u = p01 * a + p11 * b - o1
                    v = p02 * a + p12 * b + p22 * c - o2
                    w = p03 * a + p13 * b + p23 * c + p33 * d - o3
                    target[lane] = constant - ((t * t + u * u) + (v * v + w * w))
            else:
                for lane in range(n_lanes):
                    a, b = block[lane], block[lane + LANES]
                    c, d = block[lane + 2 * LANES], block[lane + 3 * LANES]
                    t = p00 * a + y[lane]
                    u = p01 * a + p11 * b + y[lane + LANES]
                    v = p02 * a + p12 * b + p22 * c + y[lane + 2 * LANES]
                    w = p03 * a + p13 * b + p23 * c + p33 * d + y[lane + 3 * LANES]
                    target[lane] -= (t * t + u * u) + (v * v + w * w)


@njit(**INNER, fastmath=FAST)
def diagonal_log_joint(z, n_lanes, precisions, offsets, constants, joint):
    """Equal ``joint[k] = constants[k] - ((z.T * P[k] - offsets[k]) ** 2).sum(1)``.

    The P[k] are the rows of `precisions`; their width is 2 or a multiple of 4.
    """
    n_lanes &= WHOLE_GROUPS
    width = offsets.shape[1]
    for k in range(constants.shape[0]):
        constant = constants[k]
        p = precisions[k]
        o = offsets[k]
        target = joint[k * LANES : (k + 1) * LANES]
        if width == 2:
            p0, p1, o0, o1 = p[0], p[1], o[0], o[1]
            for lane in range(n_lanes):
                t = z[lane] * p0 - o0
                u = z[lane + LANES] * p1 - o1
                target[lane] = constant - (t * t + u * u)
            continue
        for lane in range(n_lanes):
            target[lane] = constant
        for i in range(0, width, 4):
            block = z[i * LANES : (i + 4) * LANES]
            p0, p1, p2, p3 = p[i], p[i + 1], p[i + 2], p[i + 3]
            o0, o1, o2, o3 = o[i], o[i + 1], o[i + 2], o[i + 3]
            for lane in range(n_lanes):
                t = block[lane] * p0 - o0
                u = block[lane + LANES] * p1 - o1
                v = block[lane + 2 * LANES] * p2 - o2
                w = block[lane + 3 * LANES] * p3 - o3
                target[lane] -= (t * t + u * u) + (v * v + w * w)


@njit(**INNER)
def softmax_tile(joint, n_components, n_lanes, maximum, total, log_density):
    """Exponentiate a tile of log-joints in place.

    Equal ``maximum = joint.max(0); joint = np.exp(joint - maximum);
    total = joint.sum(0); log_density = maximum + np.log(total)``.
    """
    n_lanes &= WHOLE_GROUPS
    for lane in range(n_lanes):
        maximum[lane] = joint[lane]
        total[lane] = 0.0
    # Two components at a time, from the second if their number is odd. One at a time,
    # the compiler makes a conditional store of it, and then no vectors.
    for k in range(n_components & 1, n_components, 2):
        two = joint[k * LANES : (k + 2) * LANES]
        for lane in range(n_lanes):
            best = maximum[lane]
            value = two[lane]
            best = value if value > best else best
            value = two[lane + LANES]
            maximum[lane] = value if value > best else best
    # Until the end `log_density` serves as work space.
    for k in range(n_components):
        row = joint[k * LANES : (k + 1) * LANES]
        for lane in range(n_lanes):
            row[lane], log_density[lane] = reduce_exponent(row[lane] - maximum[lane])
        for lane in range(n_lanes):
            value = expand_exponent(row[lane], log_density[lane])
            row[lane] = value
            total[lane] += value
    for lane in range(n_lanes):
        log_density[lane] = maximum[lane] + logarithm(total[lane])
