"""A blog on Django, by its own request handler; a connection for each request, as by default."""

import os
import sys
import types

import django
import pymysql
from django.conf import settings
from pages import READS, recipe, serve

pymysql.version_info = (2, 2, 1, "final", 0)  # Django asks for that of mysqlclient
pymysql.install_as_MySQLdb()

names: dict[str, object] = {"DATABASE": {"ENGINE": "django.db.backends.mysql"}}
for setting in ("HOST", "PORT", "USER", "PASSWORD", "NAME"):
    names["DATABASE"][setting] = os.environ[setting]
recipe("django", names)
settings.configure(
    DATABASES=names["DATABASES"],
    ROOT_URLCONF="urls",
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="of a test",
    INSTALLED_APPS=[],
    DEBUG=False,
)
django.setup()

from django.db import connection, models  # noqa: E402 - only once there are settings
from django.http import HttpResponse, JsonResponse  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path  # noqa: E402


class Post(models.Model):
    title = models.CharField(max_length=100)

    class Meta:
        app_label = "blog"


def publish(request: object) -> HttpResponse:
    Post.objects.create(title=request.GET["title"])
    return HttpResponse()


def page(request: object) -> JsonResponse:
    for number in range(READS - 1):
        Post.objects.filter(id=number).first()
    return JsonResponse({"titles": list(Post.objects.values_list("title", flat=True))})


urls = types.ModuleType("urls")
urls.urlpatterns = [path("publish", publish), path("page", page)]
sys.modules["urls"] = urls


class Blog:
    def install(self) -> None:
        with connection.schema_editor() as editor:
            editor.create_model(Post)

    def publish(self, title: str) -> None:
        assert Client().get("/publish", {"title": title}).status_code == 200

    def page(self) -> list[str]:
        answer = Client().get("/page")
        assert answer.status_code == 200
        return answer.json()["titles"]


serve(Blog())
