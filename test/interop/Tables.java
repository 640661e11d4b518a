// What a tool over JDBC does with a file: lists all tables and all columns, and counts the rows of the ordinary table.
import java.sql.*;

class Tables {
  static int rows(ResultSet found) throws SQLException {
    int count = 0;
    while (found.next()) count++;
    return count;
  }

  public static void main(String[] arguments) throws Exception {
    try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + arguments[0])) {
      DatabaseMetaData about = db.getMetaData();
      System.out.println("tables " + rows(about.getTables(null, null, "%", null)));
      System.out.println("columns of ordinary " + rows(about.getColumns(null, null, "ordinary", "%")));
      try (ResultSet found = db.createStatement().executeQuery("SELECT count(*), max(name) FROM ordinary")) {
        System.out.println("rows " + found.getInt(1) + " " + found.getString(2));
      }
      System.out.println("columns " + rows(about.getColumns(null, null, "%", "%")));
    }
  }
}
