"""Lines of verbose fits besides their passes: compiling, and chunks of a stream."""

from __future__ import annotations

from contextlib import contextmanager

__all__ = ["compile_notice", "print_chunk"]

NOTICE = "Compiling loops (once on this machine, it takes some seconds) ..."


@contextmanager
def compile_notice(verbose):
    """Print one line if numba compiles within the block and ``verbose`` is positive."""
    if not verbose:
        yield
        return
    from numba.core import event

    class Notice(event.Listener):
        """Prints at the first start."""

        printed = False

        def on_start(self, event):
            if not self.printed:
                self.printed = True
                print(NOTICE, flush=True)

        def on_end(self, event):
            """Do nothing."""

    with event.install_listener("numba:compile", Notice()):
        yield


def print_chunk(estimator, count, what="rows"):
    """Print the size of a chunk that has been learned, if the estimator is verbose."""
    if estimator.verbose:
        print(f"  Chunk of {count} {what}")
