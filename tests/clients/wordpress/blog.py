"""An author who writes, and others who look at once for what was written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from tests.clients.wordpress.visitor import Page, Visitor

_AUTHOR, _PASSWORD = "author", "Suite-secret-17"
# Forms lead to a file, which is found without a database and shows the next line.
_QUICK = "readme.html"
_READ_ME = "Semantic Personal Publishing Platform"
_MOST_VISITS = 100
_QUIET = ("", "?p={post}", "?feed=rss2", "?s=Title", "?author=1")


class Blog:
    """A new WordPress, from its installation on.

    Attributes:
        stale: those that did not show what had been done before, in words.
    """

    def __init__(self, url: str, settle: Callable[[], None]) -> None:
        """
        Args:
            url: of the front page.
            settle: returns when all replicas have all that was written.
        """
        self._url = url
        self._settle = settle
        self._author = Visitor(url)
        self._nonce = ""
        self._others = 0
        self.stale: list[str] = []

    @property
    def pages(self) -> int:
        """How many were loaded, the answers to forms and calls among them."""
        return self._others + self._author.pages

    def open(self, *, at_once: bool) -> None:
        """Install WordPress and log in.

        Args:
            at_once: look at both at once; else only when all replicas have them. A WordPress that
                finds half of itself may refuse logins from then on.

        Raises:
            RuntimeError: WordPress does not do it.
        """
        self._act(
            "install",
            lambda: self._author.post(
                "wp-admin/install.php?step=2",
                {
                    "weblog_title": "A blog",
                    "user_name": _AUTHOR,
                    "admin_password": _PASSWORD,
                    "admin_password2": _PASSWORD,
                    "pw_weak": "1",
                    "admin_email": "author@example.com",
                    "blog_public": "0",
                    "language": "",
                },
            ),
            "Success!",
        )
        if not at_once:
            self._settle()
        self._look("the front page behind the installation", "", ["A blog", "Hello world!"])
        self._author.get("wp-login.php")
        form = {"log": _AUTHOR, "pwd": _PASSWORD, "testcookie": "1"}
        form["redirect_to"] = self._url + _QUICK
        self._act("log in", lambda: self._author.post("wp-login.php", form), _READ_ME)
        if not at_once:
            self._settle()
        context = self._author.get("wp-admin/")
        self._judge("the author's desk behind logging in", context, ["wp-admin-bar-logout"])
        nonce = self._author.get("wp-admin/admin-ajax.php?action=rest-nonce")
        if not re.fullmatch(r"[0-9a-f]{10}", nonce.text):
            raise RuntimeError(f"no nonce: {nonce}")
        self._nonce = nonce.text

    def post(self, number: int) -> None:
        """Publish a post, edit it, comment on it, delete it; look behind each.

        Raises:
            RuntimeError: WordPress does not do it.
        """
        title, text = f"Title {number} as published", f"Text {number} as published."
        edited, new_text = f"Title {number} as edited", f"Text {number} as edited."
        comment = f"A comment on {number}."
        made = self._call("POST", "/wp/v2/posts", title=title, content=text, status="publish")
        post = str(json.loads(made.text)["id"])
        page = f"?p={post}"
        self._look(f"the front page behind publishing {number}", "", [title])
        self._look(f"the post behind publishing {number}", page, [title, text])

        self._call("POST", f"/wp/v2/posts/{post}", title=edited, content=new_text)
        self._look(f"the post behind editing {number}", page, [edited, new_text], [title, text])
        self._look(f"the front page behind editing {number}", "", [edited], [title])

        form = {"comment": comment, "comment_post_ID": post, "comment_parent": "0"}
        form["redirect_to"] = self._url + _QUICK
        self._act(
            f"comment on {number}",
            lambda: self._author.post("wp-comments-post.php", form),
            _READ_ME,
        )
        self._look(f"the post behind commenting on {number}", page, [edited, comment])
        listed = self._author.get("wp-admin/edit.php")
        self._judge(f"the author's list behind commenting on {number}", listed, [edited])

        self._settle()
        for path in _QUIET:
            self._look(f"{path} of {number}, later", path.format(post=post), [edited])

        self._call("DELETE", f"/wp/v2/posts/{post}", force="true")
        self._look(f"the front page behind deleting {number}", "", ["A blog"], [edited])
        gone = self._other(page)
        if gone.status != 404:
            self.stale.append(f"the post behind deleting {number} (status {gone.status})")

    def visit(self, enough: Callable[[], bool]) -> None:
        """Load the front page until it is enough, at most a hundred times."""
        for _ in range(_MOST_VISITS):
            if enough():
                return
            self._look("the front page, in the end", "", ["A blog"])

    def _call(self, method: str, path: str, **body: str) -> Page:
        return self._act(
            f"{method} {path}",
            lambda: self._author.call(method, path, self._nonce, body),
            '"',
        )

    def _act(self, name: str, action: Callable[[], Page], expected: str) -> Page:
        """Do something, once more behind all replicas if the answer did not show it."""
        page = action()
        if self._judge(f"the answer to: {name}", page, [expected]):
            return page
        self._settle()
        page = action()
        if not page.shows(expected):
            raise RuntimeError(f"cannot {name}: {page.status} at {page.url}\n{page.text[:3000]}")
        return page

    def _look(self, name: str, path: str, present: list[str], absent: Sequence[str] = ()) -> None:
        self._judge(name, self._other(path), present, absent)

    def _judge(self, name: str, page: Page, present: list[str], absent: Sequence[str] = ()) -> bool:
        well = page.shows(*present) and not any(text in page.text for text in absent)
        if not well:
            self.stale.append(f"{name} (status {page.status})")
        return well

    def _other(self, path: str) -> Page:
        """A page as somebody gets it who comes for the first time."""
        self._others += 1
        return Visitor(self._url).get(path)
