// pgx 5 (all its ways to run queries) and lib/pq through database/sql.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

const (
	rows = 100000
	long = "select count(distinct a.value * b.value) from generate_series(1, 100000) a(value), generate_series(1, 100000) b(value)"
)

var (
	host      = os.Getenv("CORUN_HOST")
	port      = os.Getenv("CORUN_PORT")
	user      = os.Getenv("CORUN_USER")
	password  = os.Getenv("CORUN_PASSWORD")
	database  = os.Getenv("CORUN_DATABASE")
	authority = os.Getenv("CORUN_AUTHORITY")
)

// The moment in the table `types`.
var moment = time.Date(2024, 2, 29, 12, 34, 56, 500000000, time.UTC)

func login(more string) string {
	return fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=%s %s", host, port, user, password, database, more)
}

type checks struct {
	driver string
	count  int
}

func (c *checks) check(name string, run func(context.Context) error) {
	c.count++
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := guarded(ctx, run); err != nil {
		text := strings.Join(strings.Fields(err.Error()), " ")
		if len(text) > 300 {
			text = text[:300]
		}
		fmt.Printf("%s %s FAIL %s\n", c.driver, name, text)
		return
	}
	fmt.Printf("%s %s ok\n", c.driver, name)
}

func guarded(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if lost := recover(); lost != nil {
			err = fmt.Errorf("panic: %v", lost)
		}
	}()
	return run(ctx)
}

func (c *checks) done() {
	fmt.Printf("%s done %d\n", c.driver, c.count)
}

func equal(found, wanted any) error {
	if !reflect.DeepEqual(found, wanted) {
		return fmt.Errorf("%#v instead of %#v", found, wanted)
	}
	return nil
}

// Whether an error has this SQLSTATE.
func state(err error, wanted string, of func(error) string) error {
	if err == nil {
		return errors.New("no error, instead of " + wanted)
	}
	if found := of(err); found != wanted {
		return fmt.Errorf("%s (%v) instead of %s", found, err, wanted)
	}
	return nil
}

func main() {
	runPgx()
	runPq()
}
