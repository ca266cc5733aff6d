package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

func pgxState(err error) string {
	var of *pgconn.PgError
	if errors.As(err, &of) {
		return of.Code
	}
	return ""
}

func runPgx() {
	c := &checks{driver: "pgx"}
	defer c.done()
	c.check("tls", func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, login("sslmode=verify-full sslrootcert="+authority))
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	c.check("wrong-password", func(ctx context.Context) error {
		config, err := pgx.ParseConfig(login("sslmode=disable"))
		if err != nil {
			return err
		}
		config.Password = "wrong"
		_, err = pgx.ConnectConfig(ctx, config)
		return state(err, "28P01", pgxState)
	})
	conn, err := pgx.Connect(context.Background(), login("sslmode=disable"))
	if err != nil {
		c.check("connect", func(context.Context) error { return err })
		return
	}
	defer conn.Close(context.Background())

	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol,
	}
	for _, mode := range modes {
		name := map[pgx.QueryExecMode]string{
			pgx.QueryExecModeCacheStatement: "cache-statement", pgx.QueryExecModeCacheDescribe: "cache-describe",
			pgx.QueryExecModeDescribeExec: "describe-exec", pgx.QueryExecModeExec: "exec", pgx.QueryExecModeSimpleProtocol: "simple-protocol",
		}[mode]
		c.check("mode-"+name, func(ctx context.Context) error {
			for n := int64(0); n < 3; n++ {
				var found int64
				var text *string
				row := conn.QueryRow(ctx, "select $1::int8 + count(*), $2::text from types where t = $3", mode, n, nil, "Grüße, 'x' \"y\"")
				if err := row.Scan(&found, &text); err != nil {
					return err
				}
				if err := equal(found, n+1); err != nil {
					return err
				}
			}
			return nil
		})
		c.check("types-"+name, func(ctx context.Context) error { return pgxTypes(ctx, conn, mode) })
	}
	for _, value := range pgxValues {
		c.check("value-"+value.name, func(ctx context.Context) error {
			target := value.target()
			if err := conn.QueryRow(ctx, "select $1::"+value.of, value.value).Scan(target); err != nil {
				return err
			}
			if err := equal(value.read(target), value.wanted); err != nil {
				return err
			}
			var null *string
			if err := conn.QueryRow(ctx, "select ($1::"+value.of+")::text", nil).Scan(&null); err != nil {
				return err
			}
			return equal(null == nil, true)
		})
	}
	c.check("names", func(ctx context.Context) error {
		found, err := conn.Query(ctx, "select count(*), 1, coalesce(null, 2) from types")
		if err != nil {
			return err
		}
		defer found.Close()
		var names []string
		for _, field := range found.FieldDescriptions() {
			names = append(names, field.Name)
		}
		return equal(names, []string{"count", "?column?", "coalesce"})
	})
	c.check("structs", func(ctx context.Context) error {
		type order struct {
			ID       int64
			Customer string
		}
		found, err := conn.Query(ctx, "select id, customer from shop.orders order by id")
		if err != nil {
			return err
		}
		orders, err := pgx.CollectRows(found, pgx.RowToStructByName[order])
		if err != nil {
			return err
		}
		return equal(orders, []order{{1, "Ann"}, {2, "Bob"}, {3, "Cid"}})
	})
	c.check("batch", func(ctx context.Context) error {
		batch := &pgx.Batch{}
		for n := 0; n < 20; n++ {
			batch.Queue("select $1::int4 * 2", n)
		}
		results := conn.SendBatch(ctx, batch)
		for n := 0; n < 20; n++ {
			var found int
			if err := results.QueryRow().Scan(&found); err != nil {
				return err
			}
			if err := equal(found, 2*n); err != nil {
				return err
			}
		}
		return results.Close()
	})
	c.check("all-rows", func(ctx context.Context) error {
		found, err := conn.Query(ctx, "select x from numbers order by x")
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(found, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		return equal(len(all), rows)
	})
	c.check("copy", func(ctx context.Context) error {
		var out bytes.Buffer
		if _, err := conn.PgConn().CopyTo(ctx, &out, "copy (select x from numbers order by x limit 2) to stdout"); err != nil {
			return err
		}
		return equal(out.String(), "1\n2\n")
	})
	c.check("cancel", func(ctx context.Context) error {
		other, err := pgx.Connect(ctx, login("sslmode=disable"))
		if err != nil {
			return err
		}
		defer other.Close(ctx)
		go func() {
			time.Sleep(500 * time.Millisecond)
			_ = other.PgConn().CancelRequest(ctx)
		}()
		_, err = other.Exec(ctx, long)
		return state(err, "57014", pgxState)
	})
	c.check("context", func(ctx context.Context) error {
		pool, err := pgxpool.New(ctx, login("sslmode=disable pool_max_conns=4"))
		if err != nil {
			return err
		}
		defer pool.Close()
		late, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if _, err = pool.Exec(late, long); err == nil {
			return errors.New("it was not cancelled")
		}
		var one int
		return pool.QueryRow(ctx, "select 1").Scan(&one)
	})
	c.check("timeout", func(ctx context.Context) error {
		other, err := pgx.Connect(ctx, login("sslmode=disable statement_timeout=300"))
		if err != nil {
			return err
		}
		defer other.Close(ctx)
		_, err = other.Exec(ctx, long)
		return state(err, "57014", pgxState)
	})
	c.check("errors", func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "select * from nothing_here")
		var of *pgconn.PgError
		if errors.As(err, &of) && of.Position != 15 {
			return fmt.Errorf("position %d", of.Position)
		}
		if err := state(err, "42P01", pgxState); err != nil {
			return err
		}
		for _, pair := range [][2]string{{"selec 1", "42601"}, {"select 1/0", "22012"}, {"create table x (a int)", "25006"}} {
			_, err := conn.Exec(ctx, pair[0])
			if err := state(err, pair[1], pgxState); err != nil {
				return err
			}
		}
		return nil
	})
	c.check("transactions", func(ctx context.Context) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		inner, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = inner.Exec(ctx, "select 1/0")
		if err := state(err, "22012", pgxState); err != nil {
			return err
		}
		if err := inner.Rollback(ctx); err != nil {
			return err
		}
		var one int
		if err := tx.QueryRow(ctx, "select 1").Scan(&one); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	c.check("load-type", func(ctx context.Context) error {
		of, err := conn.LoadType(ctx, "_timestamptz")
		if err != nil {
			return err
		}
		return equal(of.OID, uint32(pgtype.TimestamptzArrayOID))
	})
	c.check("deallocate", func(ctx context.Context) error {
		if _, err := conn.Prepare(ctx, "kept", "select $1::int8"); err != nil {
			return err
		}
		if err := conn.Deallocate(ctx, "kept"); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "discard all")
		conn.TypeMap()
		return err
	})
}

func pgxTypes(ctx context.Context, conn *pgx.Conn, mode pgx.QueryExecMode) error {
	var (
		b      *bool
		i2     *int16
		i4     *int32
		i8     *int64
		f4     *float32
		f8     *float64
		n      pgtype.Numeric
		t      *string
		by     []byte
		d, ts  *time.Time
		tm     pgtype.Time
		tsz    *time.Time
		a      []*int64
		ta     []*string
		text   = "select b, i2, i4, i8, f4, f8, n, t, by, d, tm, ts, tsz, a, ta from types where id = $1"
		values = []any{&b, &i2, &i4, &i8, &f4, &f8, &n, &t, &by, &d, &tm, &ts, &tsz, &a, &ta}
	)
	if err := conn.QueryRow(ctx, text, mode, int64(1)).Scan(values...); err != nil {
		return err
	}
	number, err := n.Float64Value()
	if err != nil {
		return err
	}
	found := []any{*b, *i2, *i4, *i8, *f4, *f8, number.Float64, *t, by, d.Format(time.DateOnly), tm.Microseconds, ts.UTC(), tsz.UTC(), *a[2], *ta[1]}
	wanted := []any{
		true, int16(-2), int32(-4), int64(-9223372036854775808), float32(0.5), 1e300, -1234.5, "Grüße, 'x' \"y\"", []byte{0, 255},
		"2024-02-29", int64(3723000004), moment, moment, int64(3), "y \"z\"",
	}
	if err := equal(found, wanted); err != nil {
		return err
	}
	if err := conn.QueryRow(ctx, text, mode, int64(2)).Scan(values...); err != nil {
		return err
	}
	return equal(b == nil && i8 == nil && !n.Valid && t == nil && by == nil && tsz == nil && a == nil && ta == nil, true)
}

type pgxValue struct {
	name, of      string
	value, wanted any
	target        func() any
	read          func(any) any
}

func of[T any](name, sql string, value T) pgxValue {
	return pgxValue{name, sql, value, value, func() any { return new(T) }, func(at any) any { return *at.(*T) }}
}

var pgxValues = []pgxValue{
	of("bool", "bool", true),
	of("int2", "int2", int16(-7)),
	of("int4", "int4", int32(70000)),
	of("int8", "int8", int64(1)<<62),
	of("float4", "float4", float32(0.5)),
	of("float8", "float8", 1.25),
	of("text", "text", "Grüße"),
	of("bytea", "bytea", []byte{0, 255}),
	of("ints", "int8[]", []int64{1, 2, 3}),
	of("texts", "text[]", []string{"a", "b,c"}),
	of("uuid", "uuid", [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
	of("json", "json", map[string]any{"a": "b"}),
	of("jsonb", "jsonb", map[string]any{"a": "b"}),
	{
		"numeric", "numeric", pgtype.Numeric{Int: bigInt(-12345), Exp: -3, Valid: true}, -12.345,
		func() any { return new(float64) }, func(at any) any { return *at.(*float64) },
	},
	{
		"timestamptz", "timestamptz", moment, moment,
		func() any { return new(time.Time) }, func(at any) any { return at.(*time.Time).UTC() },
	},
	{
		"date", "date", moment.Truncate(24 * time.Hour), moment.Truncate(24 * time.Hour),
		func() any { return new(time.Time) }, func(at any) any { return at.(*time.Time).UTC() },
	},
	{
		"interval", "interval", pgtype.Interval{Days: 3, Microseconds: 4, Valid: true}, pgtype.Interval{Days: 3, Microseconds: 4, Valid: true},
		func() any { return new(pgtype.Interval) }, func(at any) any { return *at.(*pgtype.Interval) },
	},
}
