class EventBus:
    def __init__(self, thread_id, capacity=1024):
        self.is_heard = False
        self.events = []

    def emit(self, type, task="", path="", **data):
        self.events.append((type, task, path, data))
