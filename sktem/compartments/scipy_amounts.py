"""Amounts by the integrators of SciPy, for functions that are not compiled."""

from __future__ import annotations

import numpy as np

__all__ = ["SciPySolver"]

#: Largest change within a period, in tolerances, of a steady state; growth from the
#: first periods, and change in tolerances, beyond which there is none; slopes, as a
#: share of a constant infusion, likewise.
STEADY, MOST_GROWTH, NOT_STEADY, MOST_SLOPE = 10.0, 1e3, 100.0, 1e-3


class SciPySolver:
    """Integrator of the equations of one subject after another.

    Parameters
    ----------
    model : ODE
        The model.
    method : str
        Class of ``scipy.integrate``.
    rtol : float
        Relative tolerance of a step. The absolute one changes by the same factor.
    """

    def __init__(self, model, method, rtol):
        self.model = model
        self.method = method
        self.rtol = rtol
        self.atol = rtol / model.rtol * model.atol
        self.largest = 0.0

    def amounts(self, steps, values, initial, psi) -> np.ndarray:
        """Return the amounts at the records, as the compiled ``integrate`` does."""
        amounts = np.empty((len(psi.of_record), self.model.n_states))
        for begin, end in zip(steps.offsets[:-1], steps.offsets[1:], strict=True):
            self.subject(steps, range(begin, end), values, initial, psi, amounts)
        return amounts

    def subject(self, steps, which, values, initial, psi, out):
        """Write the amounts at the records of a subject."""
        from sktem.compartments.kernels import schedule

        if not len(which):
            return
        self.largest = 0.0
        rates = np.zeros(self.model.n_states)
        x = initial[psi.of_record[steps.record[which[0]]]].copy()
        for s in which:
            record, place, value = steps.record[s], steps.compartment[s], steps.value[s]
            row = psi.of_record[record]
            p = self.model._record(*values[row].tolist())
            time, elapsed, action = steps.time[s], steps.elapsed[s], steps.action[s]
            x = self.advance(time - elapsed, elapsed, x, p, rates)
            if action == schedule.RECORD:
                out[record] = x
            elif action == schedule.BOLUS:
                x[place] += value
            elif action == schedule.RATE:
                rates[place] += value
            elif action == schedule.RESET:
                x, rates[:] = initial[row].copy(), 0.0
            else:
                start = initial[row] if steps.replaces[s] else np.zeros(len(x))
                steady = self.steady_state(steps, s, start, p)
                x = steady if steps.replaces[s] else x + steady
                if steps.replaces[s]:
                    rates[:] = 0.0

    def advance(self, t, elapsed, x, p, rates):
        """Return the amounts after a time."""
        from scipy import integrate

        if elapsed <= 0 or np.isnan(x).any():
            return x
        model = self.model

        def slopes(t, A):
            return np.asarray(model.rhs(t, A, p), dtype=float) + rates

        # What enters in the interval has a size too where nothing is there yet.
        entering = 1e-3 * elapsed * float(np.abs(slopes(t, x)).max())
        self.largest = max(self.largest, float(np.abs(x).max()), entering)
        solver = getattr(integrate, self.method)(
            slopes,
            t,
            x,
            t + elapsed,
            rtol=self.rtol,
            atol=self.atol * max(self.largest, 1e-300),
        )
        with np.errstate(over="ignore", invalid="ignore"):  # of slopes without bounds
            for _ in range(model.max_steps):
                solver.step()
                if solver.status != "running":
                    break
        return solver.y if solver.status == "finished" else np.full(len(x), np.nan)

    def steady_state(self, steps, s, start, p):
        """Return the amounts at a time since the last of doses without a beginning."""
        from scipy.optimize import root

        place, value, duration = (
            steps.compartment[s], steps.value[s], steps.duration[s],
        )  # fmt: skip
        interval, phase, t = steps.interval[s], steps.phase[s], steps.time[s]
        rates = np.zeros(len(start))
        if np.isinf(duration):
            rates[place] = value

            def constant(A):
                return np.asarray(self.model.rhs(t, A, p), dtype=float) + rates

            guess = self.advance(t, 100.0, start.copy(), p, rates)
            steady = root(constant, guess, tol=self.rtol).x
            known = np.abs(constant(steady)).max() <= MOST_SLOPE * value
            return steady if known else np.full_like(steady, np.nan)
        running = int(np.floor(duration / interval + 1e-11))
        rest = max(duration - running * interval, 0.0)

        def moved(A, length):
            """Return amounts at a time after the dose."""
            A, first = A.copy(), 0.0
            if duration == 0:
                A[place] += value
            else:
                first = min(rest, length)
                rates[place] = (running + 1) * value
                A = self.advance(t - phase, first, A, p, rates)
            rates[place] = running * value
            return self.advance(t - phase + first, length - first, A, p, rates)

        for _ in range(3):
            start = moved(start, interval)
        size = np.abs(start).max()
        solution = root(
            lambda A: (moved(A, interval) - A) / size,
            start,
            tol=STEADY * self.rtol,
            options={"eps": 1e-6},
        )
        change = moved(solution.x, interval) - solution.x
        most = min(np.abs(solution.x).max(), MOST_GROWTH * size)
        if not np.abs(change).max() <= NOT_STEADY * self.rtol * most:
            return np.full_like(start, np.nan)
        return moved(solution.x, phase)
