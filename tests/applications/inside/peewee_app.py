"""A blog on peewee."""

import os

from pages import READS, recipe, serve
from peewee import CharField, Model, MySQLDatabase

names: dict[str, object] = {
    "MySQLDatabase": MySQLDatabase,
    "ADDRESS": {
        "database": os.environ["NAME"],
        "host": os.environ["HOST"],
        "port": int(os.environ["PORT"]),
        "user": os.environ["USER"],
        "password": os.environ["PASSWORD"],
    },
}
recipe("peewee", names)
database = names["database"]


class Post(Model):
    title = CharField(max_length=100)

    class Meta:
        database = database


class Blog:
    def install(self) -> None:
        database.create_tables([Post])

    def publish(self, title: str) -> None:
        with database.connection_context(), database.atomic():
            Post.create(title=title)

    def page(self) -> list[str]:
        with database.connection_context():
            for number in range(READS - 1):
                Post.get_or_none(Post.id == number)
            return [post.title for post in Post.select()]


serve(Blog())
