// A blog on knex and mysql2. As in pages.py: two requests in turns come over different connections.
const knex = require("knex");
const address = {
  host: process.env.HOST, port: Number(process.env.PORT), user: process.env.USER,
  password: process.env.PASSWORD, database: process.env.NAME,
};
const make = new Function("knex", "address", process.env.RECIPE_knex + "\nreturn { db, page };");
const PAGES = Number(process.env.PAGES), WRITES_EVERY = 25, READS = 10;
const EVERY_MS = Number(process.env.EVERY_MS);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));

async function main() {
  const workers = [make(knex, address), make(knex, address)];
  await workers[0].db.schema.createTable("posts", (table) => {
    table.increments("id");
    table.string("title", 100);
  });
  const published = [];
  let stale = 0;
  const times_ms = [], begun = performance.now();
  for (let number = 0; number < PAGES; number += 1) {
    await sleep(begun + number * EVERY_MS - performance.now());
    if (number % WRITES_EVERY === 0) {
      const title = `title ${number}`;
      await workers[number % 2].db.transaction(async (trx) => trx("posts").insert({ title }));
      published.push(title);
    }
    const asked = performance.now();
    const titles = await workers[(number + 1) % 2].page(async (db) => {
      for (let id = 0; id < READS - 1; id += 1) await db("posts").where({ id }).first();
      return (await db("posts").select("title")).map((row) => row.title);
    });
    times_ms.push(performance.now() - asked);
    stale += JSON.stringify([...titles].sort()) !== JSON.stringify([...published].sort());
  }
  await Promise.all(workers.map((worker) => worker.db.destroy()));
  process.stdout.write(JSON.stringify({ stale, times_ms }));
}

main();
