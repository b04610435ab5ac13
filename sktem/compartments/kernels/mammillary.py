"""Right-hand sides of compartments with nonlinear elimination and responses."""

from numba import njit

#: Where the vector of parameters has what: numbers and codes, elimination, volumes and
#: flows, absorption, and response.
N_DEPOTS, N_COMPARTMENTS, RESPONSE = 0, 1, 2
CL, VMAX, KM = 3, 4, 5
V1, Q2, V2, Q3, V3 = 6, 7, 8, 9, 10
KA1, KA2, SHARE = 11, 12, 13
INPUT = 14
KIN, KOUT, MOST, HALF = 16, 17, 18, 19
SIZE = 20


@njit(cache=True, nogil=True, error_model="numpy")
def derivatives(t, amounts, psi, result):
    """Write the derivatives of depots, compartments and a response.

    ``A1' = -(CL + VMAX / (KM + C)) C`` with ``C = A1 / V1``, exchange with the other
    compartments and what depots pass on; for the response E, by its code,
    ``KOUT (C - E)``, or ``KIN (1 -+ g) - KOUT E`` and ``KIN - KOUT (1 -+ g) E`` with
    ``g = MOST C / (HALF + C)``.
    """
    depots, n = int(psi[N_DEPOTS]), int(psi[N_COMPARTMENTS])
    central = depots
    concentration = amounts[central] / psi[V1]
    flow = -psi[CL] * concentration
    if psi[VMAX] != 0.0:
        flow -= psi[VMAX] * concentration / (psi[KM] + concentration)
    for d in range(depots):
        passed = psi[KA1 + d] * amounts[d]
        result[d] = -passed
        flow += passed
    for j in range(1, n):
        place = Q2 + 2 * (j - 1)
        exchanged = psi[place] * (concentration - amounts[central + j] / psi[place + 1])
        result[central + j] = exchanged
        flow -= exchanged
    result[central] = flow
    response = int(psi[RESPONSE])
    if response == 0:
        return
    last = central + n
    effect = amounts[last]
    if response == 1:
        result[last] = psi[KOUT] * (concentration - effect)
        return
    change = psi[MOST] * concentration / (psi[HALF] + concentration)
    gain, loss = psi[KIN], psi[KOUT] * effect
    if response == 2:
        gain *= 1.0 - change
    elif response == 3:
        loss *= 1.0 - change
    elif response == 4:
        gain *= 1.0 + change
    else:
        loss *= 1.0 + change
    result[last] = gain - loss
