// node-postgres, with pg-cursor and pg-query-stream.
'use strict'
const fs = require('fs')
const assert = require('assert')
const { Client, Pool } = require('pg')
const Cursor = require('pg-cursor')
const QueryStream = require('pg-query-stream')

const login = {
  host: process.env.CORUN_HOST,
  port: Number(process.env.CORUN_PORT),
  user: process.env.CORUN_USER,
  password: process.env.CORUN_PASSWORD,
  database: process.env.CORUN_DATABASE,
}
const ROWS = 100000
const LONG =
  'select count(distinct a.value * b.value) from generate_series(1, 100000) a(value), generate_series(1, 100000) b(value)'

let count = 0
async function check(name, run) {
  count += 1
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('it takes too long')), 120000)
  })
  try {
    await Promise.race([run(), late])
    console.log(`node ${name} ok`)
  } catch (error) {
    console.log(`node ${name} FAIL ${String(error.message || error).split(/\s+/).join(' ').slice(0, 300)}`)
  }
  clearTimeout(timer)
}

async function fails(code, run) {
  try {
    await run()
  } catch (error) {
    assert.strictEqual(error.code, code, `${error.code} (${error.message}) instead of ${code}`)
    return error
  }
  throw new Error(`no error, instead of ${code}`)
}

async function connect(more) {
  const client = new Client({ ...login, ...more })
  await client.connect()
  return client
}

async function main() {
  await check('tls', async () => {
    const client = await connect({ ssl: { ca: fs.readFileSync(process.env.CORUN_AUTHORITY) } })
    assert.strictEqual((await client.query('select 1::int4 as one')).rows[0].one, 1)
    await client.end()
  })
  await check('wrong-password', () => fails('28P01', () => connect({ password: 'wrong' })))
  const client = await connect({})
  const one = async (text, values) => (await client.query({ text, values, rowMode: 'array' })).rows[0]

  await check('names', async () => {
    const found = await client.query('select count(*), 1, max(i4)::text from types')
    assert.deepStrictEqual(found.fields.map((field) => field.name), ['count', '?column?', 'max'])
  })
  await check('several', async () => {
    const found = await client.query('select 1 as a; select 2 as b')
    assert.deepStrictEqual(found.map((result) => Object.keys(result.rows[0])[0]), ['a', 'b'])
  })
  for (const binary of [false, true]) {
    await check(`types-${binary ? 'binary' : 'text'}`, async () => {
      const found = await client.query({ text: 'select id, b, i2, i4, f8, t, by, ts, tsz, a, ta from types order by id', values: [], binary })
      const row = found.rows[0]
      assert.strictEqual(String(row.id), '1')
      assert.strictEqual(row.b, true)
      assert.strictEqual(row.i2, -2)
      assert.strictEqual(row.i4, -4)
      assert.strictEqual(row.f8, 1e300)
      assert.strictEqual(row.t, 'Grüße, \'x\' "y"')
      assert.deepStrictEqual([...row.by], [0, 255])
      assert.strictEqual(row.tsz.toISOString(), '2024-02-29T12:34:56.500Z')
      assert.deepStrictEqual(row.a.map((n) => (n === null ? null : Number(n))), [1, null, 3])
      assert.deepStrictEqual(row.ta, ['x', 'y "z"', null])
      assert.ok(Object.entries(found.rows[1]).every(([name, value]) => name === 'id' || value === null))
    })
  }
  const values = [
    ['bool', true, true],
    ['int2', -7, -7],
    ['int4', 70000, 70000],
    ['int8', '4611686018427387904', '4611686018427387904'],
    ['float8', 1.25, 1.25],
    ['numeric', '-12.345', '-12.345'],
    ['text', 'Grüße', 'Grüße'],
    ['bytea', Buffer.from([0, 255]), Buffer.from([0, 255])],
    ['timestamptz', new Date('2024-02-29T01:02:03.004Z'), new Date('2024-02-29T01:02:03.004Z')],
    ['uuid', '12345678-1234-5678-1234-567812345678', '12345678-1234-5678-1234-567812345678'],
    ['json', { a: [1, null] }, { a: [1, null] }],
    ['jsonb', { a: [1, null] }, { a: [1, null] }],
    ['int4[]', [1, 2, null], [1, 2, null]],
    ['text[]', ['a', 'b,c'], ['a', 'b,c']],
  ]
  for (const [of, value, wanted] of values) {
    await check(`value-${of.replace('[]', '-array')}`, async () => {
      assert.deepStrictEqual((await one(`select $1::${of}`, [value]))[0], wanted)
      assert.strictEqual((await one(`select $1::${of}`, [null]))[0], null)
    })
  }
  await check('parameters-without-casts', async () => {
    assert.deepStrictEqual(await one('select i4 from types where id = $1 and n = $2 and t = $3', [1, '-1234.5', 'Grüße, \'x\' "y"']), [-4])
    assert.deepStrictEqual(await one('select count(*)::int from types where id = any($1)', [[1, 2]]), [2])
    assert.deepStrictEqual(await one('select x::int from numbers order by x limit $1 offset $2', [1, 4]), [5])
  })
  await check('prepared', async () => {
    for (let n = 0; n < 5; n++) {
      const found = await client.query({ name: 'plus', text: 'select $1::int4 + 1 as n', values: [n] })
      assert.strictEqual(Number(found.rows[0].n), n + 1)
    }
  })
  await check('cursor', async () => {
    const cursor = client.query(new Cursor('select x from numbers order by x'))
    let rows = 0
    for (;;) {
      const part = await cursor.read(7000)
      if (part.length === 0) break
      rows += part.length
    }
    assert.strictEqual(rows, ROWS)
    await cursor.close()
    const other = client.query(new Cursor('select x from numbers order by x'))
    assert.strictEqual((await other.read(5)).length, 5)
    await other.close()
    assert.deepStrictEqual(await one('select 1::int4'), [1])
  })
  await check('stream', async () => {
    const stream = client.query(new QueryStream('select x from numbers where x <= $1', [50000], { batchSize: 1000 }))
    let rows = 0
    for await (const _ of stream) rows += 1
    assert.strictEqual(rows, 50000)
  })
  await check('cancel', async () => {
    const pid = client.processID
    const running = fails('57014', () => client.query(LONG))
    await new Promise((resolve) => setTimeout(resolve, 500))
    const other = new Client(login)
    // What `client.cancel` of the old interface does.
    other.connection.on('connect', () => other.connection.cancel(pid, client.secretKey))
    other.connection.on('error', () => {})
    other.connection.connect(login.port, login.host)
    await running
  })
  await check('timeout', async () => {
    const other = await connect({ statement_timeout: 300 })
    await fails('57014', () => other.query(LONG))
    await other.end()
  })
  await check('errors', async () => {
    const error = await fails('42P01', () => client.query('select * from nothing_here'))
    assert.strictEqual(error.position, '15')
    await fails('42601', () => client.query('selec 1'))
    await fails('22012', () => client.query('select 1/0'))
    await fails('22P02', () => client.query('select $1::int4', ['x']))
    await fails('25006', () => client.query('create table x (a int)'))
  })
  await check('transactions', async () => {
    await client.query('begin read only')
    await client.query('savepoint a')
    await fails('22012', () => client.query('select 1/0'))
    await fails('25P02', () => client.query('select 1'))
    await client.query('rollback to savepoint a')
    assert.deepStrictEqual(await one('select 3::int4'), [3])
    await client.query('commit')
  })
  await check('pool', async () => {
    const pool = new Pool({ ...login, max: 4 })
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => pool.query('select $1::int4 * 2 as n', [n])))
    assert.deepStrictEqual(all.map((found) => Number(found.rows[0].n)), Array.from({ length: 20 }, (_, n) => 2 * n))
    await pool.end()
  })
  await check('notices', async () => {
    const notices = []
    client.on('notice', (notice) => notices.push(notice.code))
    await client.query('commit')
    assert.deepStrictEqual(notices, ['25P01'])
  })
  await client.end()
  console.log(`node done ${count}`)
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error)
    process.exit(1)
  },
)
