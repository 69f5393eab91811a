#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "cli/output/format.h"
#include "cli/output/table.h"
#include "cli/problem.h"

namespace osb::cli {

namespace json = boost::json;
class Spinner;

// How a stream is written to: what a terminal understands, and whether colours are wanted.
struct Sink {
  std::FILE* file = nullptr;
  bool terminal = false;
  bool color = false;       // never without a terminal
  std::size_t columns = 0;  // of the terminal; 0: unknown, or none
};

// Writes results in the format asked for. On a terminal tables have boxes and, unless refused, colours; into a pipe
// the same cells go as lines with tabs between them, the names of the columns first. json and yaml never depend on
// where they go. Warnings go to stderr in table and raw mode, as data to stdout in json and yaml mode.
class Output {
 public:
  Output(Format format, Sink out, Sink err);
  ~Output();

  Format format() const { return format_; }
  bool structured() const { return format_ == Format::Json || format_ == Format::Yaml; }
  const Sink& out() const { return out_; }
  const Sink& err() const { return err_; }

  // {"status":"ok","message":..} or one line.
  void ok(std::string_view message) { say("ok", message); }
  void info(std::string_view message) { say("info", message); }
  void warning(std::string_view message) { say("warning", message); }
  void error(std::string_view message) { say("error", message); }

  void panel(std::string_view title, const json::object& result);        // the outcome of a change
  void object(const json::object& object, std::string_view title = {});  // two columns, Key and Value
  // Only `columns` are shown in a table; json and yaml have everything.
  void rows(const json::array& rows, const std::vector<std::string>& columns, std::string_view title = {});
  // The same for lists: fits the terminal, see Column; with -o wide all columns as they are.
  void table(const json::array& rows, const std::vector<Column>& columns, std::string_view title = {});
  void data(const json::value& value);       // json (also for table and raw) or yaml
  void json_line(const json::value& value);  // on one line, at once: for streams

  void text(std::string_view bytes);        // as they are, to stdout
  void error_text(std::string_view bytes);  // as they are, to stderr
  // Says what is going on (see Spinner) until something is written through this object.
  void busy(std::string message);
  // Call it before another process or the SDK writes, or after a sample that the user waits for.
  void flush();
  // errno of the first failed write to stdout, or 0: the reader has gone, or the disk is full. A command that prints
  // for as long as it is watched stops then.
  int write_error() const { return write_error_; }

  // The one place that reports a failure, always on stderr: {"error":{code, message, hint, ..}} with json, the same
  // with yaml, else a title and a sentence.
  void problem(const Problem& problem);

 private:
  void say(std::string_view status, std::string_view message);
  void write(const Sink& sink, std::string_view text);
  void note_write_error();

  Format format_;
  Sink out_, err_;
  std::unique_ptr<Spinner> busy_;
  int write_error_ = 0;
};

// stdout and stderr of this process. `color` is what configuration and flags say; NO_COLOR and TERM=dumb refuse too.
Sink standard_out(bool color);
Sink standard_error(bool color);

// Indented by two, keys in their order; text that is not UTF-8 has its bad bytes replaced.
std::string to_pretty_json(const json::value& value);
std::string to_json_line(const json::value& value);
// A cell of a table: strings as they are, null as "-", true as "True", lists and objects as JSON.
std::string to_cell(const json::value& value);

}  // namespace osb::cli
