// A blog on Sequelize. As in pages.py: two requests in turns come over different connections.
const { Sequelize, DataTypes } = require("sequelize");
const make = new Function("Sequelize", "address", process.env.RECIPE_sequelize + "\nreturn { db, page };");
const address = {
  dialect: "mysql", host: process.env.HOST, port: Number(process.env.PORT), username: process.env.USER,
  password: process.env.PASSWORD, database: process.env.NAME, logging: false,
};
const PAGES = Number(process.env.PAGES), WRITES_EVERY = 25, READS = 10;
const EVERY_MS = Number(process.env.EVERY_MS);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));

function worker() {
  const made = make(Sequelize, address);
  made.Post = made.db.define("post", { title: DataTypes.STRING(100) }, { timestamps: false });
  return made;
}

async function main() {
  const workers = [worker(), worker()];
  await workers[0].Post.sync();
  const published = [];
  let stale = 0;
  const times_ms = [], begun = performance.now();
  for (let number = 0; number < PAGES; number += 1) {
    await sleep(begun + number * EVERY_MS - performance.now());
    if (number % WRITES_EVERY === 0) {
      const { db, Post } = workers[number % 2];
      const title = `title ${number}`;
      await db.transaction((transaction) => Post.create({ title }, { transaction }));
      published.push(title);
    }
    const { Post, page } = workers[(number + 1) % 2];
    const asked = performance.now();
    const titles = await page(async (transaction) => {
      for (let id = 0; id < READS - 1; id += 1) await Post.findByPk(id, { transaction });
      return (await Post.findAll({ transaction })).map((post) => post.title);
    });
    times_ms.push(performance.now() - asked);
    stale += JSON.stringify([...titles].sort()) !== JSON.stringify([...published].sort());
  }
  await Promise.all(workers.map(({ db }) => db.close()));
  process.stdout.write(JSON.stringify({ stale, times_ms }));
}

main();
