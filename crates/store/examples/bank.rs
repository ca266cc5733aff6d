//! A bank: accounts, transfers between them by several clients at once, and a statement that nobody waits for.
//!
//! Run it with a folder to keep the accounts there: `cargo run -p corun-store --example bank -- FOLDER`. A second run finds them again.

#![expect(clippy::print_stdout, reason = "an example says what it did")]

use std::sync::atomic::{AtomicU64, Ordering};

use corun_store::park::ThreadPark;
use corun_store::{Options, Result, Session, Store, StoreError, Table, TableDef, Type};

const ACCOUNTS: i64 = 100;
const CLIENTS: usize = 4;
const TRANSFERS: i64 = 2_000;
/// In hundredths.
const OPENING_BALANCE: i64 = 100_000;

fn main() -> Result<()> {
    let options = Options {
        workers: 2,
        ..Options::default()
    };
    let store = match std::env::args().nth(1) {
        Some(folder) => Store::open(folder, options)?,
        None => Store::in_memory(options)?,
    };
    let account = match store.table("account") {
        Ok(account) => account,
        Err(_) => open_bank(&store)?,
    };

    let again = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (store, account, again) = (&store, &account, &again);
            scope.spawn(move || -> Result<()> {
                let mut session = store.session(client, ThreadPark::current())?;
                for number in 0..TRANSFERS {
                    // A poor man's random numbers: every client walks its own way through the accounts.
                    let from = (number * 31 + client as i64 * 17) % ACCOUNTS;
                    let to = (number * 57 + client as i64 * 5 + 1) % ACCOUNTS;
                    while let Err(error) = transfer(&mut session, account, from, to, 1 + number % 50) {
                        if !error.is_retryable() {
                            return Err(error);
                        }
                        again.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(())
            });
        }
        // Reads while the others write; every moment it sees is one between two transfers.
        for _ in 0..10 {
            assert_eq!(total(&store, &account)?, ACCOUNTS * OPENING_BALANCE);
        }
        Ok::<(), StoreError>(())
    })?;

    let total = total(&store, &account)?;
    println!(
        "{} transfers by {CLIENTS} clients, {} of them run again after a deadlock; all accounts together: {}.{:02}",
        CLIENTS as i64 * TRANSFERS,
        again.into_inner(),
        total / 100,
        total % 100
    );
    assert_eq!(total, ACCOUNTS * OPENING_BALANCE);
    store.close()
}

fn open_bank(store: &Store) -> Result<Table> {
    let account = store.create_table(
        TableDef::new("account")
            .column("id", Type::I64)
            .column("owner", Type::Text { max: 40 })
            .column(
                "balance",
                Type::Decimal {
                    precision: 18,
                    scale: 2,
                },
            )
            .nullable("last_transfer", Type::I64)
            .primary_key(&["id"])
            .index("by_owner", &["owner"]),
    )?;
    let mut session = store.session_here()?;
    let transaction = session.begin()?;
    let mut row = account.new_row();
    for id in 0..ACCOUNTS {
        row.set("id", id)?;
        row.set("owner", format!("owner {}", id % 10).as_str())?;
        row.set("balance", OPENING_BALANCE)?;
        transaction.insert(&account, &row)?;
    }
    transaction.commit()?;
    Ok(account)
}

/// Moves an amount, if the payer has it. Both accounts are locked exclusively from the beginning.
fn transfer(session: &mut Session, account: &Table, from: i64, to: i64, amount: i64) -> Result<bool> {
    if from == to {
        return Ok(false);
    }
    let by_id = account.primary();
    let transaction = session.begin()?;
    let payer = transaction.fetch_for_update(&by_id, &[from.into()])?;
    let payee = transaction.fetch_for_update(&by_id, &[to.into()])?;
    let (Some(payer), Some(payee)) = (payer, payee) else {
        return Ok(false);
    };
    if payer.row.int("balance") < amount {
        return Ok(false);
    }
    transaction.update(account, payer.rid, |row| {
        row.set("balance", row.row().int("balance") - amount)
    })?;
    transaction.update(account, payee.rid, |row| {
        row.set("balance", row.row().int("balance") + amount)?;
        row.set("last_transfer", from)
    })?;
    transaction.commit()?;
    Ok(true)
}

fn total(store: &Store, account: &Table) -> Result<i64> {
    let snapshot = store.snapshot()?;
    let rows = snapshot.rows(account, 0..account.rid_end())?;
    Ok(rows.map(|found| found.row.int("balance")).sum())
}
