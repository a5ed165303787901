# A blog on Rails' ActiveRecord. As in pages.py: two threads serve requests in turns.
require "active_record"
require "json"

PAGES = Integer(ENV["PAGES"])
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
PAGES.times do |number|
  if (number % WRITES_EVERY).zero?
    title = "title #{number}"
    workers[number % 2].serve { Post.create!(title: title) }
    published << title
  end
  titles = workers[(number + 1) % 2].serve do
    page.call(lambda do
      (READS - 1).times { |id| Post.find_by(id: id) }
      Post.pluck(:title)
    end)
  end
  stale += 1 if titles.sort != published.sort
end
print JSON.generate({ pages: PAGES, stale: stale })
