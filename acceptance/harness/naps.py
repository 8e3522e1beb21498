"""Naps instead of seconds, for what must happen soon: they stand still with the machine."""

import threading
import time

LENGTH = 0.01


class Naps:
    """Counts naps of 10 ms in a thread: 100 are a second as long as the machine runs, and longer if it stands still."""

    def __init__(self):
        self.count, self.ends = 0, False
        self.thread = threading.Thread(target=self.nap, daemon=True)

    def nap(self):
        while not self.ends:
            time.sleep(LENGTH)
            self.count += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()
