// mattn/go-sqlite3 (cgo), which compiles an SQLite of its own. usage: host EXTENSION DATA
//
// Every connection of the pool loads the extension as it is made. An in-memory database belongs to one connection, so the
// pool is held at one; with a database file it need not be.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"

	sqlite "github.com/mattn/go-sqlite3"
)

func run(extension, data string) error {
	sql.Register("sqlite3_tessera", &sqlite.SQLiteDriver{Extensions: []string{extension}})
	db, err := sql.Open("sqlite3_tessera", ":memory:")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, name := range []string{"relief", "airports"} {
		if _, err := db.Exec(fmt.Sprintf("CREATE VIRTUAL TABLE %s USING tessera('%s/%s')", name, data, name)); err != nil {
			return err
		}
	}

	var cells int
	var mean float64
	err = db.QueryRow("SELECT count(*), avg(elevation) FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?", 0, 89, -20, 69).Scan(&cells, &mean)
	if err != nil {
		return err
	}
	fmt.Printf("slice: %d cells, mean %.1f m\n", cells, mean)

	rows, err := db.Query(`
		SELECT a.iata, a.name, r.elevation FROM airports a
		  JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
		 WHERE r.elevation > ? ORDER BY r.elevation DESC`, 3000)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var iata, name string
		var elevation int
		if err := rows.Scan(&iata, &name, &elevation); err != nil {
			return err
		}
		fmt.Println(iata, name, elevation)
	}
	if err := rows.Err(); err != nil {
		return err
	}

	if _, err := db.Exec("CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32)"); err != nil {
		return err
	}
	transaction, err := db.Begin()
	if err != nil {
		return err
	}
	for _, p := range []struct {
		lat, lon float64
		name     string
		metres   int
	}{{27.99, 86.93, "Everest", 8849}, {-32.65, -70.01, "Aconcagua", 6961}, {-3.08, 37.35, "Kilimanjaro", 5895}} {
		if _, err := transaction.Exec("INSERT INTO peaks VALUES(?, ?, ?, ?)", p.lat, p.lon, p.name, p.metres); err != nil {
			return err
		}
	}
	if err := transaction.Commit(); err != nil {
		return err
	}
	if transaction, err = db.Begin(); err != nil {
		return err
	}
	if _, err := transaction.Exec("DELETE FROM peaks"); err != nil {
		return err
	}
	if err := transaction.Rollback(); err != nil {
		return err
	}
	var count, highest int
	if err := db.QueryRow("SELECT count(*), max(metres) FROM peaks").Scan(&count, &highest); err != nil {
		return err
	}
	fmt.Printf("written: %d peaks, highest %d m\n", count, highest)
	return nil
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: host EXTENSION DATA")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}
