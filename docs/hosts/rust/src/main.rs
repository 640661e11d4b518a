//! rusqlite with the features `bundled` (an SQLite of its own) and `load_extension`. usage: host EXTENSION DATA
use rusqlite::{params, Connection, LoadExtensionGuard, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (extension, data) = (&arguments[1], &arguments[2]);
    let mut db = Connection::open_in_memory()?;
    // The library is code that runs in this process: load it from where nobody else writes.
    unsafe {
        let _guard = LoadExtensionGuard::new(&db)?;
        db.load_extension(extension, None)?;
    }
    for name in ["relief", "airports"] {
        db.execute_batch(&format!("CREATE VIRTUAL TABLE {name} USING tessera('{data}/{name}')"))?;
    }

    let (cells, mean): (i64, f64) = db.query_row(
        "SELECT count(*), avg(elevation) FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?",
        params![0, 89, -20, 69],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    println!("slice: {cells} cells, mean {mean:.1} m");

    {
        let mut airports = db.prepare(
            "SELECT a.iata, a.name, r.elevation FROM airports a
               JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
              WHERE r.elevation > ? ORDER BY r.elevation DESC",
        )?;
        let mut rows = airports.query(params![3000])?;
        while let Some(row) = rows.next()? {
            let (iata, name, elevation): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            println!("{iata} {name} {elevation}");
        }
    }

    db.execute_batch(
        "CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32)",
    )?;
    let transaction = db.transaction()?;
    for (lat, lon, name, metres) in
        [(27.99, 86.93, "Everest", 8849), (-32.65, -70.01, "Aconcagua", 6961), (-3.08, 37.35, "Kilimanjaro", 5895)]
    {
        transaction.execute("INSERT INTO peaks VALUES(?, ?, ?, ?)", params![lat, lon, name, metres])?;
    }
    transaction.commit()?;
    let transaction = db.transaction()?;
    transaction.execute("DELETE FROM peaks", [])?;
    transaction.rollback()?;
    let (count, highest): (i64, i64) =
        db.query_row("SELECT count(*), max(metres) FROM peaks", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    println!("written: {count} peaks, highest {highest} m");
    Ok(())
}
