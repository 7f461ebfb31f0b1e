# SPDX-License-Identifier: Apache-2.0
"""The controller of a fleet: gives out the blocks that are due, waits, and takes in what comes back.

It alone writes the experiment's file. What it must remember beyond that lies in the run's shared folder, so that another
controller can go on: a block with a parcel is out, a block with a closing record is back. A block that nobody claimed is
called back by claiming it, so that it never runs twice.
"""

from __future__ import annotations

import platform
import secrets
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ... import __version__
from ...model.damage import DAMAGE
from ...model.errors import HeapyardError, UsageError
from ...model.experiment import Block, Experiment
from ...model.journal import FLEET, REPEATED
from ...model.metrics import define
from ...model.units import counted, format_duration
from ...store.journal import StoredJournal
from ...store.returned import CLOSING, Closing, Returned, read_returned
from ...execute.loop.course import Course
from ...execute.loop.errand import Errand, Stopped, cut_by_guard
from ...execute.loop.watcher import Away
from . import lease
from .dealing import Due, uncount, write_due
from .engine import Engine, Job
from .parcel import PARCEL, Given, Parcel, Standing, most_seconds
from .parcel import read_given, read_parcel, write_given, write_parcel, write_standing
from .parts import Part, lay_out, needed_by, parts_of
from .room import Room

POLL = 1.0  # seconds between looks at the shared folder, at most
LEAST_POLL = 0.05  # the same, at least
LOOKING = 0.05  # share of the time that looks may take, where that allows more of them
READS = 3  # looks at a damaged record before it counts as damaged: a network folder may show it late
MOST_LOST = 3  # times that one block may be lost or refused
STARTING = 300.0  # seconds of a job beside its trials: the machine's lock, copies, a launch to warm up


@dataclass(slots=True)
class _Out:
    """A block that was given out."""

    block: Block
    folder: Path
    parcel: Parcel
    job: str
    reads: int = 0
    gone: int = 0  # answers of the engine that did not name the job


class Dispatch:
    """Runs blocks on other machines; see execute.experiment.Blocks. The budget is in seconds of trials, of all nodes together."""

    def __init__(
        self, experiment: Experiment, journal: StoredJournal, engine: Engine, room: Room, stop: threading.Event, poll: float = POLL
    ):
        self._experiment, self._journal, self._engine, self._room, self._stop = experiment, journal, engine, room, stop
        self._poll = poll
        self._fleet = experiment.settings.fleet
        self._out: dict[int, _Out] = {}
        self._parts: tuple[Part, ...] = ()
        self._without: dict[str, str] = {}  # nodes that refused a block, and why
        self._lost: dict[tuple[str, str, int], int] = defaultdict(int)
        self._standing = Standing()
        self._asked = 0.0
        self._given: list[str] = []  # jobs of the stage
        self._seconds = 0.0  # that a job may take
        self._called_again = 0  # jobs for blocks whose first one ended without taking any

    def take_up(self, course: Course) -> None:
        """What an earlier controller gave out is waited for, or taken in where it is back already."""
        for block, status in self._journal.plan():
            if status not in ("planned", "started"):
                continue
            folder = self._room.block(block.index)
            if (folder / PARCEL).exists():
                self._take_up(course, block, folder)
            elif status == "started":
                course.plan.repeat(block)
        self._parts = parts_of(self._experiment)
        try:
            self._room.jobs.mkdir(parents=True, exist_ok=True)
            lay_out(self._parts, self._room.parts)
        except OSError as error:
            raise self._no_room(error) from None
        if self._out:
            course.event(FLEET, f"{counted(len(self._out), 'block')} given out before the interruption")

    def run_stage(self, course: Course, stage: str) -> None:
        try:
            while True:
                self._give_out(course, stage)
                if not self._out:
                    self._call_back_idle()
                    return
                self._wait(course)
        except (Stopped, KeyboardInterrupt):
            self._leave(course)
            raise
        except HeapyardError:
            self._engine.cancel([out.job for out in self._out.values() if out.job])
            raise

    # --- giving out

    def _give_out(self, course: Course, stage: str) -> None:
        """Lay out what is due as far as budget and engine go, and call for jobs: one a block, but no more than nodes at once.

        A job goes on with whatever lies there, so what is laid out later needs none as long as all nodes have one.
        """
        if self._stop.is_set():
            raise Stopped
        out = [o.block for o in self._out.values()]
        most = self._engine.most - len(out)
        if most <= 0:
            return
        gone, chosen = course.tally.abandoned(), list[Errand]()
        cut = sum(o.parcel.errand.repeatable for o in self._out.values())
        course.short_of_budget = False
        for block in course.fitting(stage, out):
            if block.workload in gone:
                course.plan.end(block, "abandoned")
            elif len(chosen) < most:
                chosen.append(course.errand(block, cut + sum(errand.repeatable for errand in chosen)))
            else:
                break
        if chosen:
            made = self._lay_out(course, chosen)
            self._call(made[: max(self._at_once - len(out), 0)])

    @property
    def _at_once(self) -> int:
        return self._fleet.nodes or self._engine.most

    def _lay_out(self, course: Course, errands: list[Errand]) -> list[_Out]:
        self._seconds = max(self._time_limit(course, errand) for errand in errands)
        made: list[_Out] = []
        try:
            for errand in errands:
                folder, parcel = self._room.block(errand.block.index), self._parcel(errand)
                if folder.exists():
                    shutil.rmtree(folder)  # it was planned, and never given out
                write_parcel(folder, parcel)
                made.append(_Out(errand.block, folder, parcel, ""))
            write_due(self._room, [_due(out.parcel.errand) for out in (*self._out.values(), *made)])
        except OSError as error:
            raise self._no_room(error) from None
        self._out |= {out.block.index: out for out in made}
        return made

    def _call(self, outs: Sequence[_Out]) -> None:
        """A job for each of these blocks."""
        if not outs:
            return
        try:
            jobs = self._engine.submit(
                [out.folder for out in outs],
                seconds=self._seconds,
                at_once=self._fleet.nodes,
                without=self._without.keys(),
            )
            self._given += jobs
            for out, job in zip(outs, jobs, strict=True):
                out.job = job
                write_given(out.folder, Given(job, self._fleet.engine))
        except OSError as error:
            raise self._no_room(error) from None
        except HeapyardError:
            for out in [o for o in self._out.values() if not o.job]:
                shutil.rmtree(out.folder, ignore_errors=True)
                del self._out[out.block.index]
            raise

    def _parcel(self, errand: Errand) -> Parcel:
        return Parcel(
            experiment=self._journal.id,
            title=self._experiment.title,
            token=secrets.token_hex(8),
            room=str(self._room.folder),
            version=__version__,
            libc=" ".join(platform.libc_ver()),
            errand=errand,
            parts=needed_by(errand, self._parts),
            warm_up=True,
        )

    def _time_limit(self, course: Course, errand: Errand) -> float:
        """Seconds of a job: the user's, else what the block takes if every trial lasts as long as it may, and STARTING. Where
        blocks are short, that is time for many of them."""
        limit = self._fleet.time_limit
        if not limit:
            return STARTING + most_seconds(errand)
        expected = course.tally.expected(errand.block, course.tally.dropped())
        if expected > limit:
            raise UsageError(
                f"{errand.name} is expected to take {format_duration(expected)}, longer than the time limit of a job, "
                f"{format_duration(limit)}",
                remedy=f"Go on with: heapyard resume {self._journal.id} --time-limit {expected / 60 + 5:.0f}m",
            )
        return limit

    # --- waiting

    def _wait(self, course: Course) -> None:
        """Until something came back, or a job is known to have ended without a word."""
        while True:
            began = time.monotonic()
            back = [out for out in self._out.values() if (out.folder / CLOSING).exists()]
            taken = [self._take(course, out) for out in back]
            if any(taken):
                self._tell_standing(course)
            elif self._look_after_jobs(course):
                taken = [True]
            course.watcher.waits(self._away(course))
            if any(taken):
                return
            pause = max((time.monotonic() - began) / LOOKING, LEAST_POLL)
            if self._stop.wait(min(pause, self._poll)):
                raise Stopped

    def _look_after_jobs(self, course: Course) -> bool:
        """Repeats blocks whose jobs the engine does not name any more, asked twice; calls for jobs that are missing.

        A block that nobody has claimed is lost only when no job is left that could claim it.
        """
        now = time.monotonic()
        if now - self._asked < self._engine.ask:
            return False
        self._asked = now
        jobs = self._engine.jobs()
        if jobs is None:
            return False
        lost, waiting = False, list[_Out]()
        for out in list(self._out.values()):
            holder = lease.holder_of(out.folder)
            if holder is None:
                lives = bool(jobs) or not out.job
                waiting.append(out)
            else:
                out.job = holder.job or out.job
                lives = out.job in jobs and not jobs[out.job].put_back
            out.gone = 0 if lives else out.gone + 1
            if out.gone > 1 and not (out.folder / CLOSING).exists():
                words = self._engine.last_words(out.job) if out.job else ""
                where = f" on {holder.holder}" if holder else ", which was not begun"
                ended = "was put back into the queue" if out.job in jobs else "ended without a word"
                self._give_up(course, out, f"its job {out.job or '(unknown)'}{where}, {ended}"
                              + (f"; the last in its log: {words}" if words else ""))
                lost = True
        if not lost:
            self._adjust(waiting, jobs)
        return lost

    def _adjust(self, waiting: Sequence[_Out], jobs: Mapping[str, Job]) -> None:
        """As many jobs as blocks can use: some ended by their time limit or died, others are queued for blocks that are taken."""
        if not waiting:
            self._engine.cancel([job.id for job in jobs.values() if job.id in self._given and not job.node])
            return
        lacking = min(self._at_once, len(self._out)) - sum(not job.put_back for job in jobs.values())
        fresh = [out for out in waiting if not out.job]
        again = [out for out in waiting if out.job and jobs][: max(MOST_LOST * self._at_once - self._called_again, 0)]
        chosen = [*fresh, *again][: max(lacking, 0)]
        self._called_again += sum(bool(out.job) for out in chosen)
        self._call(chosen)

    def _away(self, course: Course) -> Away:
        holders = [lease.holder_of(out.folder) for out in list(self._out.values())[:64]]
        nodes = tuple(sorted({h.holder for h in holders if h}))
        return Away(
            course.plan.done,
            course.plan.planned,
            len(self._out),
            nodes,
            course.tally.spent,
            course.remaining() / max(len(nodes), 1),
        )

    # --- taking in

    def _take(self, course: Course, out: _Out) -> bool:
        """Take in a block that is back; False when it shall be looked at once more."""
        returned = read_returned(out.folder)
        closing = returned.closing
        if returned.damage or closing is None or closing.token != out.parcel.token:
            out.reads += 1
            if out.reads < READS:
                return False
            self._give_up(course, out, returned.damage or "it came back under another lease")
            return True
        self._note(course, out, returned, closing.node, closing.snapshot)
        for kind, text in closing.events:
            course.event(kind, text)
        if closing.ended in ("done", "tripped", "released"):
            cut = closing.ended == "tripped"
            errand = replace(out.parcel.errand, repeatable=cut or course.may_repeat())
            outcomes = ((t.position, t.outcome) for t in sorted(returned.trials, key=lambda t: t.began))
            again = cut_by_guard(errand, outcomes, course.event) or cut
            if again:
                self._uncount(out)
            course.ended(out.block, again=again)
            del self._out[out.block.index]
            shutil.rmtree(out.folder, ignore_errors=True)  # all of it is in the experiment's file
        else:
            self._back_unrun(course, out, closing)
        return True

    def _note(self, course: Course, out: _Out, returned: Returned, node: str, snapshot: object) -> None:
        """The trials that came back, into file and tally."""
        for trial in returned.trials:
            define(trial.outcome.defined)
        ids = self._journal.take_returned(out.block, node, snapshot, returned.trials)
        for trial in returned.trials:
            if trial.position in ids:
                course.tally.add(out.block, trial.position, ids[trial.position], trial.outcome, trial.seconds)
                course.watcher.trial_ended(course.moment(out.block, trial.position), trial.outcome)

    def _back_unrun(self, course: Course, out: _Out, closing: Closing) -> None:
        """A node could not run it: not there again."""
        if closing.ended in ("refused", "full") and closing.node not in self._without:
            self._without[closing.node] = closing.reason
            course.event(FLEET, f"{closing.node} gets no more blocks: {closing.reason}")
        self._again(course, out, closing.reason)

    def _give_up(self, course: Course, out: _Out, why: str) -> None:
        """A block that was lost: what came back of it is kept, and it is repeated."""
        lease.take(out.folder, lease.CONTROLLER, out.job, time.time())  # if nobody has: its job shall not begin any more
        returned, holder = read_returned(out.folder), lease.holder_of(out.folder)
        if returned.trials and holder:
            self._note(course, out, returned, holder.holder, {})
        self._again(course, out, why)

    def _again(self, course: Course, out: _Out, why: str) -> None:
        key = (out.block.workload, out.block.stage, out.block.round)
        self._lost[key] += 1
        self._uncount(out)
        del self._out[out.block.index]
        why = why.rstrip(".")
        course.event(REPEATED, f"{out.parcel.errand.name}: {why}; the whole block is repeated")
        course.plan.repeat(out.block)
        if self._lost[key] >= MOST_LOST:
            raise HeapyardError(
                f"{out.parcel.errand.name} was lost or refused {MOST_LOST} times, the last time because {why}",
                remedy=f"Once that is put right: heapyard resume {self._journal.id}",
            )

    def _uncount(self, out: _Out) -> None:
        """Whoever had it has not had it: the workload is due to that kind of machine again."""
        if (holder := lease.holder_of(out.folder)) is not None:
            uncount(self._room, holder.groups, out.block.workload, out.block.stage)

    # --- beside that

    def _call_back_idle(self) -> None:
        """Jobs that were queued for blocks which others took have nothing to run."""
        if self._given:
            jobs = self._engine.jobs()
            self._engine.cancel([job for job in self._given if jobs and job in jobs and not jobs[job].node])
        self._given = []

    def _take_up(self, course: Course, block: Block, folder: Path) -> None:
        try:
            parcel, given = read_parcel(folder), read_given(folder)
        except (OSError, HeapyardError, *DAMAGE):
            lease.take(folder, lease.CONTROLLER, "", time.time())
            course.plan.repeat(block)
            return
        holder = lease.holder_of(folder)
        self._out[block.index] = _Out(block, folder, parcel, given.job if given else holder.job if holder else "")

    def _tell_standing(self, course: Course) -> None:
        now = Standing(tuple(sorted(course.tally.dropped())), tuple(sorted(course.tally.abandoned())))
        if now != self._standing:
            try:
                write_standing(self._room, now)
            except OSError as error:
                raise self._no_room(error) from None
            self._standing = now

    def _leave(self, course: Course) -> None:
        """The user wants an end: jobs of a cluster stay, processes of this machine do not."""
        if not self._out:
            return
        if not self._engine.stays:
            self._engine.cancel([out.job for out in self._out.values()])
            return
        here, name = len(self._out), self._journal.id
        stay = f"{counted(here, 'block')} {'stays' if here == 1 else 'stay'} with Slurm"
        course.event(FLEET, f"{stay}: heapyard resume {name} takes them in, heapyard fleet cancel {name} ends their jobs")

    def _no_room(self, error: OSError) -> HeapyardError:
        return HeapyardError(
            f"{error.filename or self._room.folder}: the run's shared folder cannot be written ({error.strerror})",
            remedy="Make room there, or name another folder with --shared.",
        )


def _due(errand: Errand) -> Due:
    block = errand.block
    return Due(block.index, block.workload, block.stage, block.round, most_seconds(errand))
