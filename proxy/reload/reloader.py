"""Reloads, one after the other, whoever asks for them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from proxy.config import ConfigError
from proxy.reload.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.reload.last_reload import LastReload
    from proxy.reload.source import Change, Source
    from proxy.service_manager import ServiceManager

_log = logging.getLogger(__name__)


class CannotReloadError(Exception):
    """Nothing can change now; the text says why."""


class Reloader:
    """Reads the configuration anew for all workers.

    The file is read once, by the first process, with the keys that it names: the workers are given
    what came of that. So all have the same, and a file with errors reaches none.
    """

    def __init__(
        self,
        source: Source,
        apply: Callable[[Change], list[str]],
        manager: ServiceManager,
        last_reload: LastReload | None = None,
    ) -> None:
        """Reload from a source.

        Args:
            source: where the configuration comes from.
            apply: gives the workers what has changed, and says in what they failed; it waits until
                they serve clients, and raises CannotReloadError once the proxy stops.
            manager: is told.
            last_reload: is told how each went, if somebody wants to know.
        """
        self._source = source
        self._apply = apply
        self._manager = manager
        self._last_reload = last_reload
        self._reloading = threading.Lock()
        self._asking = threading.Lock()
        self._waiting = False  # a reload that was requested has not begun

    def request(self) -> None:
        """Reload soon, in a thread; requests that come before that begins are one."""
        with self._asking:
            if self._waiting:
                return
            self._waiting = True
        threading.Thread(target=self._run, name="reload", daemon=True).start()

    def reload(self) -> Answer:
        """Reload now, or after the one that is under way; the answer is logged, too.

        May be called from any thread but that of an event loop.
        """
        with self._reloading:
            return self._reload()

    def _run(self) -> None:
        with self._reloading:
            with self._asking:
                self._waiting = False
            self._reload()

    def _reload(self) -> Answer:
        self._manager.reloading()
        try:
            answer = self._try()
        except Exception:  # a defect must not leave the one who asked without an answer
            _log.exception("the reload failed")
            answer = Answer(errors=("the reload failed, as the log says",))
        finally:
            self._manager.reloaded()
        if self._last_reload is not None:
            self._last_reload.ended(successful=not answer.errors)
        self._tell(answer)
        return answer

    def _try(self) -> Answer:
        source = self._source
        known = set(source.config.warnings())
        try:
            change = source.look()
            failures = self._apply(change)
        except ConfigError as error:
            return Answer(errors=error.problems)
        except CannotReloadError as error:
            return Answer(errors=(str(error),))
        source.take(change)
        new = tuple(text for text in change.config.warnings() if text not in known)
        return Answer(change.applied, change.needs_restart, tuple(failures), new)

    def _tell(self, answer: Answer) -> None:
        """Log the answer."""
        for error in answer.errors:
            _log.error("reload: %s", error)
        if answer.errors and not answer.applied:
            _log.error("reload: nothing was changed")
        elif answer.applied:
            _log.info("reload: applied %s", ", ".join(answer.applied))
        elif not answer.needs_restart:
            _log.info("reload: nothing has changed")
        if answer.needs_restart:
            _log.warning("reload: needs a restart: %s", ", ".join(answer.needs_restart))
        for warning in answer.warnings:
            _log.warning("%s", warning)
