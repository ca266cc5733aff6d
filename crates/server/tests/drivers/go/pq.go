package main

import (
	"context"
	"database/sql"
	"errors"
	"math/big"
	"time"

	"github.com/lib/pq"
)

func bigInt(of int64) *big.Int { return big.NewInt(of) }

func pqState(err error) string {
	var of *pq.Error
	if errors.As(err, &of) {
		return string(of.Code)
	}
	return ""
}

func runPq() {
	c := &checks{driver: "pq"}
	defer c.done()
	db, err := sql.Open("postgres", login("sslmode=disable"))
	if err != nil {
		c.check("open", func(context.Context) error { return err })
		return
	}
	defer db.Close()
	c.check("tls", func(ctx context.Context) error {
		other, err := sql.Open("postgres", login("sslmode=verify-full sslrootcert="+authority))
		if err != nil {
			return err
		}
		defer other.Close()
		return other.PingContext(ctx)
	})
	c.check("types", func(ctx context.Context) error {
		var (
			b   bool
			i8  int64
			f8  float64
			n   string
			t   string
			by  []byte
			d   time.Time
			tsz time.Time
			a   []sql.NullInt64
			ta  []sql.NullString
		)
		row := db.QueryRowContext(ctx, "select b, i8, f8, n, t, by, d, tsz, a, ta from types where id = $1", 1)
		if err := row.Scan(&b, &i8, &f8, &n, &t, &by, &d, &tsz, pq.Array(&a), pq.Array(&ta)); err != nil {
			return err
		}
		found := []any{b, i8, f8, n, t, by, d.UTC().Format(time.DateOnly), tsz.UTC(), a[2].Int64, ta[1].String}
		return equal(found, []any{
			true, int64(-9223372036854775808), 1e300, "-1234.500", "Grüße, 'x' \"y\"", []byte{0, 255}, "2024-02-29", moment, int64(3), "y \"z\"",
		})
	})
	c.check("parameters", func(ctx context.Context) error {
		var count int
		row := db.QueryRowContext(ctx, "select count(*) from types where id = any($1) and t = $2 and tsz = $3 and by = $4",
			pq.Array([]int64{1, 2}), "Grüße, 'x' \"y\"", moment, []byte{0, 255})
		if err := row.Scan(&count); err != nil {
			return err
		}
		return equal(count, 1)
	})
	c.check("binary-parameters", func(ctx context.Context) error {
		other, err := sql.Open("postgres", login("sslmode=disable binary_parameters=yes"))
		if err != nil {
			return err
		}
		defer other.Close()
		var count int
		if err := other.QueryRowContext(ctx, "select count(*) from types where t = $1 and id = $2", "x", 1).Scan(&count); err != nil {
			return err
		}
		return equal(count, 0)
	})
	c.check("prepared", func(ctx context.Context) error {
		statement, err := db.PrepareContext(ctx, "select $1::int8 + 1")
		if err != nil {
			return err
		}
		defer statement.Close()
		for n := 0; n < 5; n++ {
			var found int
			if err := statement.QueryRowContext(ctx, n).Scan(&found); err != nil {
				return err
			}
			if err := equal(found, n+1); err != nil {
				return err
			}
		}
		return nil
	})
	c.check("all-rows", func(ctx context.Context) error {
		found, err := db.QueryContext(ctx, "select x from numbers")
		if err != nil {
			return err
		}
		defer found.Close()
		count := 0
		for found.Next() {
			count++
		}
		if err := equal(count, rows); err != nil {
			return err
		}
		return found.Err()
	})
	c.check("cancel", func(ctx context.Context) error {
		late, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(late, long)
		if err == nil {
			return errors.New("it was not cancelled")
		}
		return db.PingContext(ctx)
	})
	c.check("errors", func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "select * from nothing_here")
		if err := state(err, "42P01", pqState); err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, "insert into types (id) values ($1)", 1)
		return state(err, "25006", pqState)
	})
	c.check("transactions", func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
		if err != nil {
			return err
		}
		var one int
		if err := tx.QueryRowContext(ctx, "select 1").Scan(&one); err != nil {
			return err
		}
		return tx.Commit()
	})
	c.check("column-types", func(ctx context.Context) error {
		found, err := db.QueryContext(ctx, "select n, t, count(*) from types group by n, t")
		if err != nil {
			return err
		}
		defer found.Close()
		types, err := found.ColumnTypes()
		if err != nil {
			return err
		}
		precision, scale, _ := types[0].DecimalSize()
		return equal([]any{types[0].DatabaseTypeName(), precision, scale, types[1].DatabaseTypeName(), types[2].Name()},
			[]any{"NUMERIC", int64(12), int64(3), "TEXT", "count"})
	})
}
