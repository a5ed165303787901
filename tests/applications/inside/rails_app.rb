# A blog on Rails' ActiveRecord. As in pages.py: two threads serve requests in turns.
require "active_record"
require "json"

PAGES = Integer(ENV["PAGES"])
EVERY_S = Integer(ENV["EVERY_MS"]) / 1000.0
WRITES_EVERY = 25
READS = 10

def address
  { adapter: "mysql2", host: ENV["HOST"], port: Integer(ENV["PORT"]), username: ENV["USER"],
    password: ENV["PASSWORD"], database: ENV["NAME"], pool: 3 }
end

page = nil
eval(ENV["RECIPE_rails"])

class Post < ActiveRecord::Base
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# A worker of a web server: a thread, which has a connection of its own.
class Worker
  def initialize
    @asked, @answers = Queue.new, Queue.new
    Thread.new { loop { @answers << @asked.pop.call } }
  end

  def serve(&request)
    @asked << request
    @answers.pop
  end
end

ActiveRecord::Base.connection.create_table(:posts) { |table| table.string :title, limit: 100 }
workers = [Worker.new, Worker.new]
published = []
stale = 0
times_ms = []
begun = now
PAGES.times do |number|
  sleep([0, begun + number * EVERY_S - now].max)
  if (number % WRITES_EVERY).zero?
    title = "title #{number}"
    workers[number % 2].serve { Post.create!(title: title) }
    published << title
  end
  asked = now
  titles = workers[(number + 1) % 2].serve do
    page.call(lambda do
      (READS - 1).times { |id| Post.find_by(id: id) }
      Post.pluck(:title)
    end)
  end
  times_ms << (now - asked) * 1000
  stale += 1 if titles.sort != published.sort
end
print JSON.generate({ stale: stale, times_ms: times_ms })
