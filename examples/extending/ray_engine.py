"""An engine for teams that have a Ray cluster: it delivers batches of texts to workers."""

import asyncio
import time
import uuid
from collections import defaultdict, deque

import ray

from lorebind.plugin import Engine, StoreError

POLL_SECONDS, DEAD_SECONDS = 0.1, 5.0


@ray.remote(num_cpus=0)
class Queues:
    """The ids that wait, and those that workers have in hand, in a process of the cluster."""

    def __init__(self, dead_seconds):
        self.waiting, self.workers = defaultdict(deque), defaultdict(dict)
        self.dead_seconds = dead_seconds

    def submit(self, key, ids):
        self.waiting[key].extend(ids)

    def look_after(self, key):
        workers, oldest = self.workers[key], time.monotonic() - self.dead_seconds
        for worker in [name for name, (_, seen, _) in workers.items() if seen < oldest]:
            self.waiting[key].extendleft(workers.pop(worker)[2])
        return sum(slots for slots, _, _ in workers.values())

    def take(self, key, worker, slots, in_hand):
        """Return ids for the free slots of a worker that has these in hand."""
        waiting = self.waiting[key]
        new = [waiting.popleft() for _ in range(min(slots - len(in_hand), len(waiting)))]
        self.workers[key][worker] = (slots, time.monotonic(), in_hand + new)
        return new


class RayEngine(Engine):
    def __init__(self, catalog, dead_seconds=DEAD_SECONDS):
        self.name, self.dead_seconds = f"lorebind: {catalog}", dead_seconds

    def submit(self, key, ids):
        self._call("submit", key, list(ids))

    def look_after(self, key):
        return self._call("look_after", key)

    async def serve(self, work, slots, *, once=False):
        async with asyncio.TaskGroup() as keys:
            for key, count in slots.items():
                keys.create_task(self._serve(work, key, count, once))

    def close(self):
        """The connection belongs to the process, which may have other catalogs."""

    async def _serve(self, work, key, slots, once):
        worker, in_hand = uuid.uuid4().hex, {}
        try:
            while True:
                try:
                    ids = [*in_hand.values()]
                    new = await asyncio.to_thread(self._call, "take", key, worker, slots, ids)
                    for batch in new:
                        in_hand[task := asyncio.create_task(work(key, batch))] = batch
                        task.add_done_callback(in_hand.pop)
                    if once and not in_hand:
                        return
                except StoreError:  # the ids of a lost answer go to others, as if it had died
                    worker = uuid.uuid4().hex
                await asyncio.sleep(POLL_SECONDS)
        finally:  # now it is silent, so look_after soon takes it for dead
            await asyncio.gather(*in_hand)

    def _call(self, method, *arguments):
        try:
            if not ray.is_initialized():
                ray.init("auto")  # RAY_ADDRESS, or the cluster of this machine
            options = {"name": self.name, "namespace": "lorebind", "get_if_exists": True}
            queues = Queues.options(lifetime="detached", **options).remote(self.dead_seconds)
            return ray.get(getattr(queues, method).remote(*arguments), timeout=10)
        except (ray.exceptions.RayError, ConnectionError) as error:
            raise StoreError(f"{self.name}: the Ray cluster does not answer: {error}") from error


def make(database):
    return RayEngine(database)
