// A blog on Spring's JdbcTemplate and HikariCP. As in pages.py: two requests in turns come over
// different connections, each from a pool of its own.
import com.zaxxer.hikari.HikariDataSource;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

class Program {
    static final int PAGES = Integer.parseInt(System.getenv("PAGES"));
    static final long EVERY_MS = Long.parseLong(System.getenv("EVERY_MS"));

    final JdbcTemplate db;
    final TransactionTemplate writing;
    final TransactionTemplate reading;

    Program() {
        HikariDataSource pool = new HikariDataSource();
        pool.setJdbcUrl("jdbc:mysql://127.0.0.1:" + System.getenv("PORT") + "/pages?sslMode=disable"
            + "&allowPublicKeyRetrieval=true");
        pool.setDriverClassName("org.mariadb.jdbc.Driver");
        pool.setUsername(System.getenv("USER"));
        pool.setPassword(System.getenv("PASSWORD"));
        pool.setMaximumPoolSize(1);
        db = new JdbcTemplate(pool);
        DataSourceTransactionManager manager = new DataSourceTransactionManager(pool);
        writing = new TransactionTemplate(manager);
        TransactionTemplate page = new TransactionTemplate(manager);
        RECIPE
        reading = page;
    }

    List<String> titles() {
        for (int id = 0; id < 9; id++) {
            db.queryForList("SELECT title FROM posts WHERE id = ?", String.class, id);
        }
        return new ArrayList<>(db.queryForList("SELECT title FROM posts", String.class));
    }

    public static void main(String[] arguments) throws InterruptedException {
        Program[] workers = {new Program(), new Program()};
        workers[0].db.execute("CREATE TABLE posts (id INT AUTO_INCREMENT PRIMARY KEY, title VARCHAR(100))");
        List<String> published = new ArrayList<>();
        List<Double> times = new ArrayList<>();
        int stale = 0;
        long begun = System.nanoTime();
        for (int number = 0; number < PAGES; number++) {
            Thread.sleep(Math.max(0, number * EVERY_MS - (System.nanoTime() - begun) / 1_000_000));
            if (number % 25 == 0) {
                String title = "title " + number;
                Program worker = workers[number % 2];
                worker.writing.execute(
                    status -> worker.db.update("INSERT INTO posts (title) VALUES (?)", title));
                published.add(title);
            }
            Program worker = workers[(number + 1) % 2];
            long asked = System.nanoTime();
            List<String> titles = worker.reading == null
                ? worker.titles() : worker.reading.execute(status -> worker.titles());
            times.add((System.nanoTime() - asked) / 1e6);
            Collections.sort(titles);
            Collections.sort(published);
            stale += titles.equals(published) ? 0 : 1;
        }
        System.out.print("{\"stale\": " + stale + ", \"times_ms\": " + times + "}");
    }
}
