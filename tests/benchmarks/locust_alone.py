"""What a Locust user writes by himself: users who keep a pace, one body, Locust's own statistics."""

from __future__ import annotations

import os

from locust import FastHttpUser, constant_throughput, task


class User(FastHttpUser):
    wait_time = constant_throughput(float(os.environ["PACE"]))

    @task
    def ask(self) -> None:
        self.client.post("", json={"x": 1})
