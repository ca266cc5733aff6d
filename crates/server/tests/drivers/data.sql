copy (
    select 1::bigint as id, true as b, arrow_cast(-2, 'Int16') as i2, arrow_cast(-4, 'Int32') as i4, -9223372036854775808 as i8,
        arrow_cast(0.5, 'Float32') as f4, 1e300::double as f8, arrow_cast(-1234.5, 'Decimal128(12, 3)') as n, 'Grüße, ''x'' "y"' as t,
        arrow_cast(decode('00ff', 'hex'), 'Binary') as by, date '2024-02-29' as d, arrow_cast('01:02:03.000004', 'Time64(Microsecond)') as tm,
        arrow_cast('2024-02-29T12:34:56.5', 'Timestamp(Microsecond, None)') as ts,
        arrow_cast('2024-02-29T12:34:56.5Z', 'Timestamp(Microsecond, Some("+00:00"))') as tsz,
        [1, null, 3] as a, ['x', 'y "z"', null] as ta
    union all
    select 2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
) to 'data/types.parquet';
copy (select value as x from generate_series(1, 100000) as s(value) order by 1) to 'data/numbers.parquet';
copy (select 1 as id, 'Ann' as name union all select 2, 'Bob') to 'data/people.csv';
copy (select 1 as id, 'Cid' as name) to 'data/hr/staff.csv';
copy (
    select column1::bigint as id, column2 as customer, arrow_cast(column3, 'Decimal128(12, 2)') as price, column4 as status, column5 as note
    from (values (1, 'Ann', 10.0, 'new', null), (2, 'Bob', 20.5, 'paid', 'gift'), (3, 'Cid', 30.25, 'new', null)) as v
) to 'orders.parquet';
