"""One run of a program in a greenlet: it goes on until it asks for something, and waits for the answer."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from traceback import walk_tb
from types import FrameType

from greenlet import getcurrent, greenlet

from mlcheck.trial.script.ambient import Switch
from mlcheck.trial.script.program import Program
from mlcheck.trial.script.requests import Answer, Ended, Given, Request
from mlcheck.trial.script.surroundings import Surroundings
from mlcheck.trial.traceback import STARTED_IN, is_user_file

_PATIENCE = 20


def on_common_ground(examine: Callable[[], None]) -> None:
    """Call a function such that scripts started within it begin on the same stack as it does.

    When C++ throws, torch walks up the stack. What lies above a greenlet is whatever its starter has left there since:
    such a walk may end the process. So both are started from here, by one call, which stays as it is.
    """
    examiner = greenlet(lambda _: examine())
    asked = examiner
    while not examiner.dead:
        asked = asked.switch(None)


class Abandoned(BaseException):
    """Raised in a script that is not needed any more, so that its `with` and `finally` blocks are left."""


class Run:
    """A program, run up to its first request and further."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._greenlet = greenlet(self._main)
        self._switch = Switch()
        self._process = os.getpid()
        self._folder = os.getcwd()
        self._given_up = False
        self._surroundings = Surroundings()

    def advance(self, answer: Answer | Given | None = None, watched: bool = True) -> Request:
        """Let the script go on with the answer to its last request, until the next.

        Unless `watched`, the examiner's function modes are off meanwhile.
        """
        home = os.getcwd()
        os.chdir(self._folder)
        self._switch.to_script(watched)
        try:
            request: Request = self._switch_to_script(answer)
        finally:
            self._switch.to_examiner()
            self._folder = os.getcwd()
            os.chdir(home)
        return request

    def _switch_to_script(self, answer: Answer | Given | None) -> Request:
        ground = getcurrent().parent
        begins = not self._greenlet and not self._greenlet.dead
        told: Request = ground.switch(self._greenlet) if begins and ground else self._greenlet.switch(answer)
        return told

    def ask(self, request: Request) -> Answer | Given | None:
        """On the script's side: wait for the answer."""
        answer: Answer | Given | None = self._greenlet.parent.switch(request)
        if self._given_up:
            raise Abandoned
        return answer

    @property
    def is_here(self) -> bool:
        """Whether the caller is the script itself, and no thread or worker process of its own."""
        return os.getpid() == self._process and getcurrent() is self._greenlet and not self._given_up

    def abandon(self) -> None:
        """Leave the script where it waits and clear away what it changed in the process."""
        self._given_up = True
        for _ in range(_PATIENCE):
            if not self._greenlet or self._greenlet.dead:
                break
            with suppress(BaseException):
                self.advance()
        self._surroundings.restore()

    def frames(self) -> list[FrameType]:
        """The frames of the user's own functions that are under way, innermost first."""
        found = []
        frame = self._greenlet.gr_frame
        while frame is not None:
            if is_user_file(frame.f_code.co_filename):
                found.append(frame)
            frame = frame.f_back
        return found

    def _main(self, _: object) -> Ended:
        STARTED_IN.set(self._folder)  # in the greenlet's own context, for as long as it lives
        try:
            self._program.run()
        except SystemExit as left:
            return Ended(exit_code=left.code, refused=_refused(left), handled=left.__context__)
        except Abandoned:
            return Ended()
        except Exception as error:
            return Ended(error)
        return Ended()


def _refused(left: SystemExit) -> str:
    """What argparse, or a parser made from its own, said before it left; empty where something else did."""
    for frame, _ in walk_tb(left.__traceback__):
        if frame.f_code.co_name == "error" and isinstance(frame.f_locals.get("self"), ArgumentParser):
            return str(frame.f_locals.get("message", ""))
    return ""
