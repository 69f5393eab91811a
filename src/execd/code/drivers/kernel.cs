// The C# kernel of execd. Requests come on descriptor 3, a socket; the code is in the file on descriptor 4; frames go back
// (driver_protocol.h). With Mono the evaluator of its compiler runs the code, with .NET (ROSLYN) submissions of Roslyn.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
#if ROSLYN
using System.Linq;
using System.Reflection;
using System.Runtime.InteropServices;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.Win32.SafeHandles;
#else
using Mono.CSharp;
using Mono.Unix;
using Mono.Unix.Native;
#endif

// Code that cannot be compiled.
class CompilationException : Exception {
  public readonly List<string> Lines;
  public CompilationException(string message, List<string> lines) : base(message) { Lines = lines; }
}

// Where a cell falls into pieces that can be run one after the other: behind a semicolon or a closing brace at the end of
// a line, outside of all brackets.
static class Pieces {
  public static List<KeyValuePair<int, string>> Of(string text) {
    var pieces = new List<KeyValuePair<int, string>>();
    int depth = 0, start = 0, line = 1, startLine = 1;
    for (int i = 0; i < text.Length;) {
      int next = SkipLiteral(text, i);
      if (next > i) {
        for (; i < next; ++i) if (text[i] == '\n') ++line;
        continue;
      }
      char c = text[i++];
      if (c == '\n') ++line;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (depth > 0 || (c != ';' && c != '}') || !MayEndAt(text, start, i, c)) continue;
      pieces.Add(new KeyValuePair<int, string>(startLine, text.Substring(start, i - start)));
      start = i;
      startLine = line;
    }
    if (start < text.Length) pieces.Add(new KeyValuePair<int, string>(startLine, text.Substring(start)));
    pieces.RemoveAll(piece => IsBlank(piece.Value));
    return pieces;
  }

  static bool MayEndAt(string text, int start, int at, char last) {
    if (last == ';' && IsUsing(text, start)) return true;
    int i = at;
    bool newLine = false;
    for (; i < text.Length; ++i) {
      int next = SkipLiteral(text, i);
      if (next > i && text[i] == '/') {
        i = next - 1;
        continue;
      }
      if (text[i] == '\n') newLine = true;
      else if (!char.IsWhiteSpace(text[i])) break;
    }
    if (i == text.Length) return true;
    if (!newLine) return false;
    string word = Word(text, i);
    if (word == "else" || word == "catch" || word == "finally" || ".)]};,?:".IndexOf(text[i]) >= 0) return false;
    return !(word == "while" && last == '}' && Word(text, FirstOf(text, start)) == "do");
  }

  static bool IsUsing(string text, int start) {
    int i = FirstOf(text, start);
    if (Word(text, i) != "using") return false;
    for (i += 5; i < text.Length && char.IsWhiteSpace(text[i]); ++i) {
    }
    return i < text.Length && text[i] != '(' && Word(text, i) != "var";
  }

  static int FirstOf(string text, int i) {
    while (i < text.Length) {
      int next = SkipLiteral(text, i);
      if (next > i && text[i] == '/') i = next;
      else if (char.IsWhiteSpace(text[i])) ++i;
      else break;
    }
    return i;
  }

  public static string Word(string text, int i) {
    int end = i;
    while (end < text.Length && (char.IsLetterOrDigit(text[end]) || text[end] == '_')) ++end;
    return text.Substring(i, end - i);
  }

  static bool IsBlank(string text) { return FirstOf(text, 0) >= text.Length || text.Trim() == ";"; }

  // The end of the comment, string or character that begins at i; i where none does.
  static int SkipLiteral(string text, int i) {
    char c = text[i];
    char d = i + 1 < text.Length ? text[i + 1] : '\0';
    if (c == '/' && d == '/') return EndOf(text, i, "\n", 0);
    if (c == '/' && d == '*') return EndOf(text, i + 2, "*/", 2);
    if ((c == '@' && d == '"') || (c == '$' && d == '@') || (c == '@' && d == '$')) {
      int quote = text.IndexOf('"', i);
      if (quote < 0 || quote > i + 2) return i;
      for (int k = quote + 1; k < text.Length; ++k) {
        if (text[k] != '"') continue;
        if (k + 1 < text.Length && text[k + 1] == '"') ++k;
        else return k + 1;
      }
      return text.Length;
    }
    if (c != '"' && c != '\'') return i;
    for (int k = i + 1; k < text.Length && text[k] != '\n'; ++k) {
      if (text[k] == '\\') ++k;
      else if (text[k] == c) return k + 1;
    }
    return i;
  }

  static int EndOf(string text, int from, string what, int more) {
    int at = text.IndexOf(what, Math.Min(from, text.Length), StringComparison.Ordinal);
    return at < 0 ? text.Length : at + more;
  }
}

#if ROSLYN

// Each piece is a submission that sees the ones before it.
class Engine {
  readonly List<MetadataReference> references = new List<MetadataReference>();
  readonly CSharpParseOptions parsing = new CSharpParseOptions(LanguageVersion.Latest, kind: SourceCodeKind.Script);
  CSharpCompilation previous;
  readonly Dictionary<string, Assembly> submissions = new Dictionary<string, Assembly>();
  object[] states = new object[16];
  int count;

  public Engine() {
    // The runtime finds no assembly by its name that came from memory.
    AppDomain.CurrentDomain.AssemblyResolve += (sender, wanted) => {
      Assembly found;
      submissions.TryGetValue(new AssemblyName(wanted.Name).Name, out found);
      return found;
    };
    foreach (string path in ((string)AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES")).Split(':')) {
      if (path.Length > 0) references.Add(MetadataReference.CreateFromFile(path));
    }
  }

  public object Run(string piece, int line) {
    var tree = CSharpSyntaxTree.ParseText(piece, parsing);
    var options = new CSharpCompilationOptions(OutputKind.DynamicallyLinkedLibrary, usings: Kernel.Namespaces);
    var compilation = CSharpCompilation.CreateScriptCompilation("submission" + count, tree, references, options, previous,
                                                                typeof(object));
    var image = new MemoryStream();
    var emitted = compilation.Emit(image);
    if (!emitted.Success) {
      var lines = new List<string>();
      foreach (var each in emitted.Diagnostics.Where(d => d.Severity == DiagnosticSeverity.Error)) {
        lines.Add("line " + (line + each.Location.GetLineSpan().StartLinePosition.Line) + ": " + each.Id + ": " + each.GetMessage());
      }
      if (lines.Count > 0) throw new CompilationException(lines[0], lines);
      Keep(compilation);  // a submission without code, such as `using System;`
      return Kernel.Nothing;
    }
    var entry = compilation.GetEntryPoint(CancellationToken.None);
    var loaded = Assembly.Load(image.ToArray());
    submissions[loaded.GetName().Name] = loaded;
    var type = loaded.GetType(entry.ContainingType.MetadataName, true);
    Keep(compilation);
    if (count + 1 >= states.Length) Array.Resize(ref states, states.Length * 2);
    var run = (Func<object[], Task<object>>)type.GetMethod(entry.MetadataName, BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic)
                  .CreateDelegate(typeof(Func<object[], Task<object>>));
    return run(states).GetAwaiter().GetResult();
  }

  void Keep(CSharpCompilation compilation) {
    previous = compilation;
    ++count;
  }
}

#else

class Diagnostics : ReportPrinter {
  public readonly List<string> Lines = new List<string>();
  public int FirstLine = 1;
  public override void Print(AbstractMessage message, bool showFullPath) {
    base.Print(message, showFullPath);
    if (message.IsWarning) return;
    string place = message.Location.IsNull ? "" : "line " + (FirstLine + message.Location.Row - 1) + ": ";
    Lines.Add(place + "CS" + message.Code.ToString("D4", CultureInfo.InvariantCulture) + ": " + message.Text);
  }
}

class Engine {
  readonly Diagnostics diagnostics = new Diagnostics();
  readonly Evaluator evaluator;
  int methods;

  public Engine() {
    evaluator = new Evaluator(new CompilerContext(new CompilerSettings(), diagnostics));
    foreach (string reference in new[] {"System.Numerics", "System.Xml", "Microsoft.CSharp"}) {
      try {
        evaluator.LoadAssembly(reference);
      } catch (Exception) {  // not in this image
      }
    }
    foreach (string name in Kernel.Namespaces) evaluator.Run("using " + name + ";");
    diagnostics.Lines.Clear();
  }

  public object Run(string piece, int line) {
    if (IsMethod(piece)) {
      string name = "OpenSandboxMethods" + ++methods;
      Compile("public static class " + name + " { public static " + piece + "}", line);
      Compile("using static " + name + ";", line);
      return Kernel.Nothing;
    }
    CompiledMethod method = CompilePiece(piece, line);
    object value = Kernel.Nothing;
    if (method != null) method(ref value);
    var task = value as Task;
    if (task == null) return value;
    task.GetAwaiter().GetResult();
    return Kernel.Nothing;
  }

  // "a * b" alone reads as the declaration of a pointer, which leaves a broken b behind; so does "(a * b)".
  CompiledMethod CompilePiece(string piece, int line) {
    bool product = System.Text.RegularExpressions.Regex.IsMatch(piece, @"\A\s*[\w.]+\s*\*[^;{}]*\z");
    return Compile(product ? "unchecked(" + piece + "\n)" : piece, line);
  }

  CompiledMethod Compile(string text, int line) {
    diagnostics.Lines.Clear();
    diagnostics.FirstLine = line;
    CompiledMethod method = null;
    string left;
    try {
      left = evaluator.Compile(text, out method);
    } catch (NullReferenceException) {  // of the compiler itself, for input such as a lone directive
      throw new CompilationException("the code cannot be compiled", new List<string> {"line " + line + ": the code cannot be compiled"});
    }
    if (diagnostics.Lines.Count > 0) throw new CompilationException(diagnostics.Lines[0], new List<string>(diagnostics.Lines));
    if (left != null && left.Trim().Length > 0) {
      throw new CompilationException("the code ends too soon", new List<string> {"line " + line + ": the code ends too soon: " + left.Trim()});
    }
    return method;
  }

  // "int Twice(int x) { ... }": Mono's evaluator knows methods in classes only.
  static bool IsMethod(string piece) {
    return piece.TrimEnd().EndsWith("}", StringComparison.Ordinal) &&
           System.Text.RegularExpressions.Regex.IsMatch(
               piece, @"\A\s*(?!(new|return|else|if|while|for|foreach|switch|using|lock|class|struct|interface|enum|namespace|public|private|internal|static\s+class|await|throw|var)\b)" +
                      @"(static\s+|async\s+|unsafe\s+)*[\w.]+(<[\w\s,.<>\[\]?]+>)?(\[[\s,]*\])*\??\s+\w+\s*(<[\w\s,]+>)?\s*\([^;{}]*\)\s*(where[^{};]*)?\{");
  }
}

#endif

static class Kernel {
  const int MaxText = (1 << 19) - 64;  // characters of a value; with the note it stays below the limit of execd
  const int MaxItems = 1000;
  const int MaxDepth = 5;
  const int MaxFrames = 50;
  const int LateMs = 1000;  // an interrupt that has not come after this time does not come
  public static readonly object Nothing = new object();
  public static readonly string[] Namespaces = {"System", "System.Collections.Generic", "System.IO", "System.Linq", "System.Text",
                                                "System.Threading.Tasks"};

  static readonly object gate = new object();
  static Stream socket;
  static Engine engine;
  static long run;
  static Thread running;  // the thread of the cell, while an interrupt may stop it
  static bool interrupted;
  static long interrupts;  // how many have come so far

  // ---- frames

  static string Quoted(string text) {
    var out_ = new StringBuilder("\"");
    for (int i = 0; i < text.Length; ++i) {
      char c = text[i];
      if (c == '"' || c == '\\') out_.Append('\\').Append(c);
      else if (c < ' ' || c == '\u2028' || c == '\u2029' || (char.IsSurrogate(c) && !IsPair(text, i)))
        out_.Append(char.IsSurrogate(c) ? "\\ufffd" : "\\u" + ((int)c).ToString("x4", CultureInfo.InvariantCulture));
      else out_.Append(c);
    }
    return out_.Append('"').ToString();
  }

  static bool IsPair(string text, int i) {
    return (i + 1 < text.Length && char.IsSurrogatePair(text[i], text[i + 1])) || (i > 0 && char.IsSurrogatePair(text[i - 1], text[i]));
  }

  static string Cut(string text) {
    return text.Length <= MaxText ? text : text.Substring(0, MaxText) + "... [" + text.Length + " characters, cut]";
  }

  static void Send(string type, string more) {
    try {
      Console.Out.Flush();
      Console.Error.Flush();
    } catch (Exception) {  // code may have put anything there
    }
    byte[] body = Encoding.UTF8.GetBytes("{\"type\":\"" + type + "\",\"run\":" + run + more + "}");
    byte[] head = Encoding.ASCII.GetBytes(body.Length + " ");
    byte[] frame = new byte[head.Length + body.Length];
    head.CopyTo(frame, 0);
    body.CopyTo(frame, head.Length);
    socket.Write(frame, 0, frame.Length);
    socket.Flush();
  }

  static void SendError(string name, string value, IEnumerable<string> lines) {
    var quoted = new List<string>();
    foreach (string line in lines) quoted.Add(Quoted(Cut(line)));
    Send("error", ",\"ename\":" + Quoted(name) + ",\"evalue\":" + Quoted(Cut(value)) + ",\"traceback\":[" + string.Join(",", quoted) + "]");
  }

  // ---- values

  static string Describe(object value, int depth) {
    if (value == null) return "null";
    if (value is bool) return (bool)value ? "true" : "false";
    if (value is string) return depth == 0 ? (string)value : "\"" + value + "\"";
    if (value is char) return depth == 0 ? value.ToString() : "'" + value + "'";
    var number = value as IFormattable;
    if (number != null && value.GetType().IsPrimitive) return number.ToString(null, CultureInfo.InvariantCulture);
    var items = value as IEnumerable;
    if (items == null || depth >= MaxDepth) return Convert.ToString(value, CultureInfo.InvariantCulture) ?? "";
    var texts = new List<string>();
    foreach (object item in items) {
      if (texts.Count == MaxItems) {
        texts.Add("...");
        break;
      }
      object each = item;
      var pair = each as DictionaryEntry?;
      texts.Add(pair != null ? "[" + Describe(pair.Value.Key, depth + 1) + "] = " + Describe(pair.Value.Value, depth + 1) : Describe(each, depth + 1));
    }
    return texts.Count == 0 ? "{ }" : "{ " + string.Join(", ", texts) + " }";
  }

  // ---- a cell

  // Sets the directory and the variables of one run; returns what brings back those before.
  static Action Enter(string[] words) {
    string before = Directory.GetCurrentDirectory();
    var old = new List<KeyValuePair<string, string>>();
    for (int i = 1; i < words.Length; ++i) {
      int at = words[i].IndexOf('=');
      if (at <= 0) continue;
      string name = words[i].Substring(0, at);
      old.Add(new KeyValuePair<string, string>(name, Environment.GetEnvironmentVariable(name)));
      Environment.SetEnvironmentVariable(name, words[i].Substring(at + 1));
    }
    if (words[0].Length > 0) Directory.SetCurrentDirectory(words[0]);
    return () => {
      foreach (var each in old) Environment.SetEnvironmentVariable(each.Key, each.Value);
      Directory.SetCurrentDirectory(before);
    };
  }

  // `sent`: how many interrupts were sent for earlier cells.
  static void RunCell(long number, int head, long sent) {
    byte[] bytes = File.ReadAllBytes("/proc/self/fd/4");
    head = Math.Min(head, bytes.Length);
    string text = new UTF8Encoding(false).GetString(bytes, head, bytes.Length - head);
    Action leave = head == 0 ? () => {} : Enter(Encoding.UTF8.GetString(bytes, 0, head).Split('\0'));
    string ename = null, evalue = "";
    var lines = new List<string>();
    object value = Nothing;
    var cell = new Thread(() => {
      try {
        foreach (var piece in Pieces.Of(text)) {
          lock (gate) if (interrupted) throw new OperationCanceledException();
          value = engine.Run(piece.Value, piece.Key);
        }
        if (value != Nothing && value != null) value = Describe(value, 0);
        lock (gate) running = null;
      } catch (CompilationException error) {
        ename = "CompilationException";
        evalue = error.Message;
        lines = error.Lines;
      } catch (ThreadAbortException) {
#if !ROSLYN
        Thread.ResetAbort();
#endif
        ename = "KeyboardInterrupt";
      } catch (Exception error) {
        ename = error.GetType().Name;
        evalue = error.Message;
        lines = Trace(error);
      }
    }, 16 << 20);
    lock (gate) {
      while (interrupts < sent) {
        if (!Monitor.Wait(gate, LateMs)) interrupts = sent;
      }
      run = number;
      interrupted = false;
      running = cell;
    }
    cell.Start();
    Send("started", "");
    cell.Join();
    leave();
    bool stopped;
    lock (gate) {
      running = null;
      stopped = interrupted;
    }
    if (stopped && ename != null) {
      SendError("KeyboardInterrupt", "the code was interrupted", lines);
    } else if (ename != null) {
      SendError(ename, evalue, lines);
    } else if (value is string) {
      Send("result", ",\"data\":{\"text/plain\":" + Quoted(Cut((string)value)) + "}");
    }
    Send("done", "");
  }

  static List<string> Trace(Exception error) {
    var lines = new List<string>();
    for (Exception each = error; each != null; each = each.InnerException) {
      lines.Add((lines.Count == 0 ? "" : "Caused by: ") + each.GetType().FullName + ": " + each.Message);
      int frames = 0;
      foreach (string frame in (each.StackTrace ?? "").Split('\n')) {
        if (frame.Trim().Length == 0 || frame.Contains("Kernel.") || frame.Contains("Engine.") || ++frames > MaxFrames) continue;
        lines.Add("   " + frame.Trim());
      }
    }
    return lines;
  }

  static void Interrupt() {
    lock (gate) {
      ++interrupts;
      Monitor.PulseAll(gate);
      if (running == null || interrupted) return;
      interrupted = true;
#if !ROSLYN
      running.Abort();
#endif
    }
  }

#if ROSLYN
  static Stream Open(int descriptor, FileAccess access) {
    return new FileStream(new SafeFileHandle((IntPtr)descriptor, false), access, 1);
  }
  static void WatchInterrupts() {
    Console.CancelKeyPress += (sender, pressed) => {
      pressed.Cancel = true;
      Interrupt();
    };
  }
#else
  static Stream Open(int descriptor, FileAccess access) { return new UnixStream(descriptor, false); }
  static void WatchInterrupts() {
    var signal = new UnixSignal(Signum.SIGINT);
    new Thread(() => {
      while (signal.WaitOne()) {
        signal.Reset();
        Interrupt();
      }
    }) {IsBackground = true}.Start();
  }
#endif

  static TextWriter Output(int descriptor) {
    return new StreamWriter(Open(descriptor, FileAccess.Write), new UTF8Encoding(false), 4096) {AutoFlush = true};
  }

  static void Main(string[] arguments) {
    Console.SetOut(Output(1));
    Console.SetError(Output(2));
    Console.SetIn(TextReader.Null);
    socket = Open(3, FileAccess.ReadWrite);
    engine = new Engine();
    WatchInterrupts();
    if (arguments.Length > 0) Directory.Delete(arguments[0], true);
    Send("ready", "");
    var line = new StringBuilder();
    for (int c; (c = socket.ReadByte()) >= 0;) {
      if (c != '\n') {
        line.Append((char)c);
        continue;
      }
      string[] words = line.ToString().Split(' ');
      line.Clear();
      if (words[0] == "run") {
        RunCell(long.Parse(words[1], CultureInfo.InvariantCulture), int.Parse(words[2], CultureInfo.InvariantCulture),
                long.Parse(words[3], CultureInfo.InvariantCulture));
      }
    }
    Environment.Exit(0);
  }
}
