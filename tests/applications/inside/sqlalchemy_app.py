"""A blog on SQLAlchemy's ORM."""

import os

from pages import READS, recipe, serve
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

names: dict[str, object] = {
    "create_engine": create_engine,
    "Session": Session,
    "URL": os.environ["URL"],
}
recipe("sqlalchemy", names)
engine, reading = names["engine"], names["reading"]


class Base(DeclarativeBase):
    pass


class Post(Base):
    __tablename__ = "posts"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]


class Blog:
    def install(self) -> None:
        Base.metadata.create_all(engine)

    def publish(self, title: str) -> None:
        with Session(engine) as session, session.begin():
            session.add(Post(title=title))

    def page(self) -> list[str]:
        with Session(reading) as session:
            for number in range(READS - 1):
                session.get(Post, number)
            return list(session.scalars(select(Post.title)))


Post.__table__.c.title.type.length = 100
serve(Blog())
