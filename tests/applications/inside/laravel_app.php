<?php
// A blog on Laravel's database component. As in pages.py: two connections serve requests in turns.
error_reporting(E_ALL & ~E_DEPRECATED);
require 'Illuminate/Database/autoload.php';
$pages = (int) getenv('PAGES');
$address = [
    'driver' => 'mysql', 'host' => getenv('HOST'), 'port' => getenv('PORT'),
    'username' => getenv('USER'), 'password' => getenv('PASSWORD'), 'database' => getenv('NAME'),
    'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci', 'strict' => true,
];
$page = null;
eval(getenv('RECIPE_laravel'));

$manager = new Illuminate\Database\Capsule\Manager();
$workers = [];
foreach (['one', 'two'] as $name) {
    $manager->addConnection($address, $name);
    $workers[] = $manager->getConnection($name);
}
$workers[0]->getSchemaBuilder()->create('posts', function ($table) {
    $table->increments('id');
    $table->string('title', 100);
});
$published = [];
$stale = 0;
$times = [];
$every = (int) getenv('EVERY_MS');
$begun = hrtime(true) / 1e6;
for ($number = 0; $number < $pages; $number++) {
    usleep((int) max(0, ($begun + $number * $every - hrtime(true) / 1e6) * 1000));
    if ($number % 25 === 0) {
        $title = "title $number";
        $workers[$number % 2]->transaction(
            fn($db) => $db->table('posts')->insert(['title' => $title])
        );
        $published[] = $title;
    }
    $asked = hrtime(true);
    $titles = $page($workers[($number + 1) % 2], function ($db) {
        for ($id = 0; $id < 9; $id++) {
            $db->table('posts')->find($id);
        }
        return $db->table('posts')->pluck('title')->all();
    });
    $times[] = (hrtime(true) - $asked) / 1e6;
    sort($titles);
    sort($published);
    $stale += $titles !== $published ? 1 : 0;
}
echo json_encode(['stale' => $stale, 'times_ms' => $times]);
