"""Found by a worker process that starts afresh (spawn, forkserver): puts the stand-in in its own place."""

from mlcheck.trial.determined.package import install

install(None)
