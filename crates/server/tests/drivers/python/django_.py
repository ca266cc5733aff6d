"""Django 5: inspectdb with its introspection, and the ORM's reads."""

import io
from decimal import Decimal

import django
from django.conf import settings

from checks import DATABASE, HOST, PASSWORD, PORT, ROWS, TYPES, USER, Checks, equal

check = Checks("django")
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes"],
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": DATABASE,
            "USER": USER,
            "PASSWORD": PASSWORD,
            "HOST": HOST,
            "PORT": PORT,
            "OPTIONS": {"sslmode": "disable", "options": "-c search_path=public,shop"},
        }
    },
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, models, transaction  # noqa: E402
from django.db.models import Avg, Case, Count, Exists, F, OuterRef, Q, Subquery, Sum, Value, When, Window  # noqa: E402
from django.db.models.functions import Coalesce, Concat, ExtractYear, Length, Lower, RowNumber, TruncMonth  # noqa: E402


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True)
    customer = models.TextField()
    price = models.DecimalField(max_digits=12, decimal_places=2)
    status = models.TextField()
    note = models.TextField(null=True)

    class Meta:
        app_label = "checks"
        managed = False
        db_table = "orders"


class Types(models.Model):
    id = models.BigIntegerField(primary_key=True)
    b = models.BooleanField(null=True)
    n = models.DecimalField(max_digits=12, decimal_places=3, null=True)
    t = models.TextField(null=True)
    by = models.BinaryField(null=True)
    d = models.DateField(null=True)
    ts = models.DateTimeField(null=True, db_column="tsz")

    class Meta:
        app_label = "checks"
        managed = False
        db_table = "types"


class Number(models.Model):
    x = models.BigIntegerField(primary_key=True)

    class Meta:
        app_label = "checks"
        managed = False
        db_table = "numbers"


@check
def connects():
    connection.ensure_connection()
    equal(connection.pg_version >= 140000, True)


@check
def table_names():
    names = connection.introspection.table_names()
    assert {"types", "numbers", "people", "orders"} <= set(names), names


@check
def descriptions():
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, "types")
    equal([column.name for column in columns], list(TYPES))


@check
def keys():
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "orders")
        equal(connection.introspection.get_primary_key_column(cursor, "orders"), "id")
        equal(connection.introspection.get_relations(cursor, "orders"), {})
        equal(connection.introspection.get_sequences(cursor, "orders"), [])
    key = found["orders_pkey"]
    equal((key["columns"], key["primary_key"], key["unique"]), (["id"], True, True))


@check
def inspectdb():
    out = io.StringIO()
    call_command("inspectdb", "types", "orders", stdout=out)
    text = out.getvalue()
    for wanted in ["class Types(", "class Orders(", "models.BigIntegerField(primary_key=True)", "models.BinaryField(",
                   "models.DecimalField(max_digits=12, decimal_places=3", "models.DateTimeField("]:
        assert wanted in text, f"no {wanted} in {text}"
    assert "Unable to inspect" not in text, text


@check
def get_and_filter():
    equal(Order.objects.get(pk=2).customer, "Bob")
    equal(list(Order.objects.filter(customer__in=["Ann", "Cid"]).values_list("id", flat=True).order_by("id")), [1, 3])
    equal(Order.objects.filter(Q(price__gt=Decimal("15")) & ~Q(customer="Bob")).count(), 1)
    equal(Order.objects.filter(note__isnull=True).count(), 2)
    equal(Order.objects.exclude(id=1).exists(), True)


@check
def lookups():
    equal(Order.objects.filter(customer__icontains="O").count(), 1)
    equal(Order.objects.filter(customer__startswith="A").count(), 1)
    equal(Order.objects.filter(customer__iexact="ann").count(), 1)
    equal(Order.objects.filter(customer__regex="^[AB]").count(), 2)
    equal(Order.objects.filter(price__range=(10, 25)).count(), 2)
    equal(Types.objects.filter(d__year=2024, d__month=2).count(), 1)
    equal(Types.objects.filter(ts__date="2024-02-29").count(), 1)


@check
def aggregates():
    found = Order.objects.aggregate(Sum("price"), Avg("price"), Count("id"), most=models.Max("price"))
    equal((found["price__sum"], found["id__count"], found["most"]), (Decimal("60.75"), 3, Decimal("30.25")))
    groups = Order.objects.values("status").annotate(n=Count("id")).order_by("-n")
    equal([(group["status"], group["n"]) for group in groups], [("new", 2), ("paid", 1)])


@check
def expressions():
    found = (
        Order.objects.annotate(
            name=Concat(Lower("customer"), Value("!"), output_field=models.TextField()),
            size=Length("customer"),
            kind=Case(When(price__gt=25, then=Value("big")), default=Value("small")),
            nothing=Coalesce("note", Value("-"), output_field=models.TextField()),
            twice=F("price") * 2,
            number=Window(RowNumber(), order_by=F("id").desc()),
        )
        .order_by("id")
        .first()
    )
    equal((found.name, found.size, found.kind, found.number), ("ann!", 3, "small", 3))
    equal(found.twice, Decimal("20.00"))


@check
def dates():
    found = Types.objects.filter(id=1).annotate(month=TruncMonth("d"), year=ExtractYear("ts")).get()
    equal((str(found.month), found.year), ("2024-02-01", 2024))


@check
def subqueries():
    dearer = Order.objects.filter(price__gt=OuterRef("price"))
    equal(Order.objects.filter(~Exists(dearer)).get().id, 3)
    best = Order.objects.order_by("-price").values("customer")[:1]
    equal(Order.objects.annotate(best=Subquery(best)).filter(id=1).get().best, "Cid")
    equal(Order.objects.filter(id__in=Types.objects.values("id")).count(), 2)


@check
def sets():
    one, other = Order.objects.filter(id=1), Order.objects.filter(id=2)
    equal(sorted(one.union(other).values_list("id", flat=True)), [1, 2])
    equal(list(Order.objects.values("status").distinct().order_by("status")), [{"status": "new"}, {"status": "paid"}])


@check
def types():
    row = Types.objects.get(id=1)
    equal((row.b, row.n, row.t, bytes(row.by), row.d, row.ts), tuple(TYPES[name] for name in ("b", "n", "t", "by", "d", "tsz")))
    equal(Types.objects.filter(by=TYPES["by"], n=TYPES["n"], d=TYPES["d"]).count(), 1)


@check
def iterator():
    equal(sum(1 for _ in Number.objects.order_by("x").iterator(chunk_size=5000)), ROWS)


@check
def atomic():
    with transaction.atomic():
        equal(Order.objects.count(), 3)
        with transaction.atomic():
            equal(Order.objects.count(), 3)


@check
def raw():
    equal(Order.objects.raw("select * from orders where id = %s", [3])[0].customer, "Cid")


@check
def explain():
    assert Order.objects.filter(id=1).explain(), "no plan"


connection.close()
check.done()
