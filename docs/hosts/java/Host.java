// sqlite-jdbc, which brings an SQLite of its own. usage: java -cp '*' Host.java EXTENSION DATA
import java.sql.*;
import java.util.Locale;
import org.sqlite.SQLiteConfig;

public class Host {
  static final Object[][] PEAKS = {{27.99, 86.93, "Everest", 8849}, {-32.65, -70.01, "Aconcagua", 6961}, {-3.08, 37.35, "Kilimanjaro", 5895}};

  public static void main(String[] arguments) throws SQLException {
    SQLiteConfig config = new SQLiteConfig();
    config.enableLoadExtension(true);
    try (Connection db = DriverManager.getConnection("jdbc:sqlite::memory:", config.toProperties()); Statement statement = db.createStatement()) {
      try (PreparedStatement load = db.prepareStatement("SELECT load_extension(?)")) {
        load.setString(1, arguments[0]);
        load.execute();
      }
      for (String name : new String[] {"relief", "airports"})
        statement.execute("CREATE VIRTUAL TABLE " + name + " USING tessera('" + arguments[1] + "/" + name + "')");

      try (PreparedStatement slice = db.prepareStatement("SELECT count(*), avg(elevation) FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?")) {
        int[] ends = {0, 89, -20, 69};
        for (int i = 0; i < 4; i++) slice.setInt(i + 1, ends[i]);
        try (ResultSet row = slice.executeQuery()) {
          row.next();
          System.out.printf(Locale.ROOT, "slice: %d cells, mean %.1f m%n", row.getInt(1), row.getDouble(2));
        }
      }

      String airports = "SELECT a.iata, a.name, r.elevation FROM airports a"
          + "  JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540"
          + " WHERE r.elevation > ? ORDER BY r.elevation DESC";
      try (PreparedStatement above = db.prepareStatement(airports)) {
        above.setInt(1, 3000);
        try (ResultSet row = above.executeQuery()) {
          while (row.next()) System.out.println(row.getString("iata") + " " + row.getString("name") + " " + row.getInt("elevation"));
        }
      }

      statement.execute("CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180), name TEXT, metres INT32)");
      db.setAutoCommit(false);
      try (PreparedStatement insert = db.prepareStatement("INSERT INTO peaks VALUES(?, ?, ?, ?)")) {
        for (Object[] peak : PEAKS) {
          for (int i = 0; i < peak.length; i++) insert.setObject(i + 1, peak[i]);
          insert.executeUpdate();
        }
      }
      db.commit();
      statement.executeUpdate("DELETE FROM peaks");
      db.rollback();
      try (ResultSet row = statement.executeQuery("SELECT count(*), max(metres) FROM peaks")) {
        row.next();
        System.out.printf(Locale.ROOT, "written: %d peaks, highest %d m%n", row.getInt(1), row.getInt(2));
      }
    }
  }
}
