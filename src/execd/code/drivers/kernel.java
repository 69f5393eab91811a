// The Java kernel of execd: the JDK's own JShell, in this process. Requests come on descriptor 3, a socket; the code is in
// the file on descriptor 4. Nothing has to be in the image but the JDK, which compiles this text when it starts it first.
import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.ExpressionSnippet;
import jdk.jshell.JShell;
import jdk.jshell.JShellException;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;
import jdk.jshell.UnresolvedReferenceException;
import jdk.jshell.VarSnippet;

public class OpenSandboxKernel implements sun.misc.SignalHandler {
  static final int MAX_TEXT = (1 << 19) - 64;  // characters of a value; with the note it stays below the limit of execd
  static final int MAX_FRAMES = 50;  // of a stack trace
  static final int MAX_NAMES = 1000;  // of classes that are looked up
  static final long LATE_NANOS = 1_000_000_000;  // an interrupt that has not come after this time does not come
  // As the jshell program has them; all of them are packages of java.base.
  static final String[] IMPORTS = {"java.io", "java.math", "java.net", "java.nio.file", "java.util",
                                   "java.util.concurrent", "java.util.function", "java.util.regex", "java.util.stream"};

  static PrintStream out = output(FileDescriptor.out);
  static PrintStream err = output(FileDescriptor.err);

  final FileOutputStream frames;
  final FileChannel code;
  final JShell shell;
  private SourceCodeAnalysis analysis;  // made when it is needed: it reads an index of all classes of the JDK
  final List<String> imports = new ArrayList<>(List.of(IMPORTS));  // not made yet
  final Set<String> names = new HashSet<>();  // looked up in them
  private long run;           // the number of the cell
  private boolean busy;       // a cell runs
  private boolean interrupted;
  private long interrupts;    // how many have come so far

  OpenSandboxKernel() throws Exception {
    frames = new FileOutputStream(descriptor(3));
    code = new FileInputStream(descriptor(4)).getChannel();
    shell = JShell.builder().executionEngine("local").in(System.in).out(System.out).err(System.err).build();
  }

  static FileDescriptor descriptor(int number) throws Exception {
    Constructor<FileDescriptor> constructor = FileDescriptor.class.getDeclaredConstructor(int.class);
    constructor.setAccessible(true);
    return constructor.newInstance(number);
  }

  // ---- messages

  static String quoted(String text) {
    StringBuilder out = new StringBuilder(text.length() + 2).append('"');
    for (int i = 0; i < text.length(); ++i) {
      char c = text.charAt(i);
      boolean lone = Character.isSurrogate(c) &&
          !(Character.isHighSurrogate(c) ? i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))
                                         : i > 0 && Character.isHighSurrogate(text.charAt(i - 1)));
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
      else out.append(lone ? '\ufffd' : c);
    }
    return out.append('"').toString();
  }

  void send(String type, String more) throws IOException {
    System.out.flush();
    System.err.flush();
    byte[] body = ("{\"type\":\"" + type + "\",\"run\":" + run + more + "}").getBytes(StandardCharsets.UTF_8);
    byte[] length = (body.length + " ").getBytes(StandardCharsets.US_ASCII);
    byte[] frame = new byte[length.length + body.length];
    System.arraycopy(length, 0, frame, 0, length.length);
    System.arraycopy(body, 0, frame, length.length, body.length);
    frames.write(frame);
  }

  void sendError(String name, String value, List<String> traceback) throws IOException {
    StringBuilder lines = new StringBuilder();
    for (String line : traceback) lines.append(lines.length() == 0 ? "" : ",").append(quoted(cut(line)));
    send("error", ",\"ename\":" + quoted(name) + ",\"evalue\":" + quoted(cut(value)) + ",\"traceback\":[" + lines + "]");
  }

  static String cut(String text) {
    return text.length() <= MAX_TEXT ? text : text.substring(0, MAX_TEXT) + "... [" + text.length() + " characters, cut]";
  }

  // ---- a cell

  String readCode() throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate((int) code.size());
    while (bytes.hasRemaining() && code.read(bytes, bytes.position()) > 0) {
    }
    return new String(bytes.array(), 0, bytes.position(), StandardCharsets.UTF_8);
  }

  // `sent`: how many interrupts were sent for earlier cells. One that the code has kept for itself is not waited for longer.
  void runCell(long number, long sent) throws Exception {
    String text = readCode();
    synchronized (this) {
      for (long end = System.nanoTime() + LATE_NANOS, left; interrupts < sent && (left = end - System.nanoTime()) > 0;) {
        wait(left / 1_000_000 + 1);
      }
      interrupts = Math.max(interrupts, sent);
      run = number;
      busy = true;
      interrupted = false;
    }
    send("started", "");
    boolean failed = !evaluate(text);
    boolean stopped;
    synchronized (this) {
      busy = false;
      stopped = interrupted;
      notifyAll();
    }
    if (stopped) renewOutput();
    if (stopped && !failed) sendError("KeyboardInterrupt", "the code was interrupted", List.of());
    send("done", "");
  }

  synchronized boolean isInterrupted() {
    return interrupted;
  }

  // An import takes tens of milliseconds in a young process: those packages are imported whose classes the code names.
  void importFor(String text) {
    int length = text.length();
    for (int at = 0, end; at < length && !imports.isEmpty(); at = end + 1) {
      for (end = at; end < length && Character.isJavaIdentifierPart(text.charAt(end));) ++end;
      if (end == at || !Character.isUpperCase(text.charAt(at)) || !names.add(text.substring(at, end))) continue;
      for (Iterator<String> each = imports.iterator(); each.hasNext();) {
        String name = each.next();
        if (names.size() < MAX_NAMES && Class.forName(Object.class.getModule(), name + "." + text.substring(at, end)) == null) continue;
        shell.eval("import " + name + ".*;");
        each.remove();
      }
    }
  }

  // The end of the snippet at `at` where that is easy to see, in text without braces and comments; -1 where it is not. JShell's
  // own analysis knows all of the language, but begins with an index of all classes of the JDK.
  static int endOfSimple(String text, int at) {
    int depth = 0, last = 0;
    for (int i = at; i < text.length(); ++i) {
      char c = text.charAt(i);
      if (Character.isWhitespace(c)) continue;
      if (c == ';' && depth == 0) return last == 0 ? -1 : i + 1;
      if (Character.isJavaIdentifierStart(c)) {
        int begin = i;
        while (i + 1 < text.length() && Character.isJavaIdentifierPart(text.charAt(i + 1))) ++i;
        if (i == begin + 1 && (text.startsWith("if", begin) || text.startsWith("do", begin))) return -1;
      } else if (c == '"' || c == '\'') {
        if (text.startsWith("\"\"\"", i)) return -1;
        for (++i; i < text.length() && text.charAt(i) != c && text.charAt(i) != '\n'; ++i) if (text.charAt(i) == '\\') ++i;
        if (i >= text.length() || text.charAt(i) != c) return -1;
      } else if ("{}\\".indexOf(c) >= 0 || c == '/' && (text.startsWith("//", i) || text.startsWith("/*", i))) {
        return -1;
      } else if (c == '(' || c == '[') {
        ++depth;
      } else if ((c == ')' || c == ']') && --depth < 0) {
        return -1;
      }
      last = c;
    }
    boolean ended = Character.isJavaIdentifierPart(last) || ")]\"'".indexOf(last) >= 0;
    return depth == 0 && last != 0 && ended ? text.length() : -1;
  }

  // Snippet by snippet. False: an error has been sent.
  boolean evaluate(String text) throws IOException {
    importFor(text);
    String value = null;
    for (int at = 0; !text.substring(at).isBlank() && !isInterrupted();) {
      int end = endOfSimple(text, at);
      String snippet;
      if (end >= 0) {
        snippet = text.charAt(end - 1) == ';' ? text.substring(at, end) : text.substring(at, end).concat(";");
      } else {
        if (analysis == null) analysis = shell.sourceCodeAnalysis();
        CompletionInfo info = analysis.analyzeCompletion(text.substring(at));
        if (info.completeness() == Completeness.EMPTY) break;
        if (info.completeness() == Completeness.DEFINITELY_INCOMPLETE) {
          sendError("IncompleteSourceException", "the code ends too soon", List.of(place(text, at) + text.substring(at).strip()));
          return false;
        }
        snippet = info.source();
        end = text.length() - info.remaining().length();
      }
      value = null;
      for (SnippetEvent event : shell.eval(snippet)) {
        if (event.causeSnippet() != null) continue;  // an older snippet that this one has changed
        if (!report(event, text, at)) return false;
        value = valueOf(event);
      }
      at = end;
    }
    if (value != null && !isInterrupted()) send("result", ",\"data\":{\"text/plain\":" + quoted(cut(value)) + "}");
    return true;
  }

  // The value of an expression. A declaration or an assignment has none, as in other languages.
  String valueOf(SnippetEvent event) {
    Snippet snippet = event.snippet();
    String value = event.value();
    String type;
    if (snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND) type = ((VarSnippet) snippet).typeName();
    else if (snippet.subKind() == Snippet.SubKind.VAR_VALUE_SUBKIND) type = ((ExpressionSnippet) snippet).typeName();
    else return null;
    return type.equals("String") && value.startsWith("\"") ? unquoted(value) : value;
  }

  // JShell shows a string as a literal.
  static String unquoted(String literal) {
    StringBuilder out = new StringBuilder(literal.length());
    for (int i = 1; i < literal.length() - 1; ++i) {
      char c = literal.charAt(i);
      if (c != '\\') {
        out.append(c);
        continue;
      }
      c = literal.charAt(++i);
      int escape = "btnfr".indexOf(c);
      if (escape >= 0) out.append("\b\t\n\f\r".charAt(escape));
      else if (c == 'u') out.append((char) Integer.parseInt(literal.substring(i + 1, (i += 4) + 1), 16));
      else out.append(c);
    }
    return out.toString();
  }

  // ---- errors

  boolean report(SnippetEvent event, String text, int at) throws IOException {
    if (event.status() == Snippet.Status.REJECTED) {
      List<String> lines = new ArrayList<>();
      String first = null;
      for (Diag each : (Iterable<Diag>) shell.diagnostics(event.snippet())::iterator) {
        if (first == null) first = each.getMessage(Locale.ENGLISH);
        lines.add(place(text, at + (int) Math.max(0, each.getPosition())) + each.getMessage(Locale.ENGLISH));
      }
      sendError("CompilationException", first == null ? "the code cannot be compiled" : first, lines);
      return false;
    }
    JShellException thrown = event.exception();
    if (thrown == null || isInterrupted()) return true;
    if (thrown instanceof UnresolvedReferenceException) {
      String name = ((UnresolvedReferenceException) thrown).getSnippet().name();
      String message = name + " refers to something that is not declared";
      sendError("UnresolvedReferenceException", message, List.of(message));
      return false;
    }
    List<String> lines = new ArrayList<>();
    for (Throwable each = thrown; each != null; each = each.getCause()) {
      lines.add((lines.isEmpty() ? "" : "Caused by: ") + describe(each));
      StackTraceElement[] trace = each.getStackTrace();
      for (int i = 0; i < trace.length && i < MAX_FRAMES; ++i) lines.add("    at " + describe(trace[i]));
    }
    sendError("EvalException", describe(thrown), lines);
    return false;
  }

  static String describe(Throwable thrown) {
    String name = thrown instanceof EvalException ? ((EvalException) thrown).getExceptionClassName() : thrown.getClass().getName();
    return thrown.getMessage() == null ? name : name + ": " + thrown.getMessage();
  }

  // JShell gives a snippet the file name #7; code outside of methods has no name.
  static String describe(StackTraceElement at) {
    if (at.getFileName() == null || !at.getFileName().startsWith("#")) return at.toString();
    return (at.getMethodName() + " (" + at.getFileName() + ":" + at.getLineNumber() + ")").strip();
  }

  static String place(String text, int at) {
    return "line " + (1 + text.substring(0, Math.min(at, text.length())).chars().filter(c -> c == '\n').count()) + ": ";
  }

  // JShell forgets a stop that comes while it compiles: it is repeated until the cell ends. The cell does not end meanwhile,
  // so that none stops the next one.
  @Override
  public synchronized void handle(sun.misc.Signal signal) {
    ++interrupts;
    notifyAll();
    if (!busy || interrupted) return;
    interrupted = true;
    for (long stopped = run; busy && run == stopped;) {
      shell.stop();
      try {
        wait(50);
      } catch (InterruptedException ignored) {
        return;
      }
    }
  }

  // A thread that is stopped in the middle of a write may leave its stream unusable. What the code has redirected stays so.
  void renewOutput() {
    boolean ownOut = System.out == out, ownErr = System.err == err;
    out = output(FileDescriptor.out);
    err = output(FileDescriptor.err);
    if (ownOut) System.setOut(out);
    if (ownErr) System.setErr(err);
  }

  // UTF-8 in every locale, written at the end of each line.
  static PrintStream output(FileDescriptor to) {
    return new PrintStream(new BufferedOutputStream(new FileOutputStream(to)), true, StandardCharsets.UTF_8);
  }

  // For later processes, which need not compile it again.
  static String ownClass() throws IOException {
    InputStream own = OpenSandboxKernel.class.getResourceAsStream("OpenSandboxKernel.class");
    if (own == null) return "";  // JDK 11 gives it to nobody
    return ",\"data\":{\"OpenSandboxKernel.class\":\"".concat(Base64.getEncoder().encodeToString(own.readAllBytes())).concat("\"}");
  }

  public static void main(String[] args) throws Exception {
    System.setOut(out);
    System.setErr(err);
    OpenSandboxKernel kernel = new OpenSandboxKernel();
    sun.misc.Signal.handle(new sun.misc.Signal("INT"), kernel);
    kernel.send("ready", args.length == 0 ? "" : ownClass());
    FileInputStream requests = new FileInputStream(descriptor(3));
    StringBuilder line = new StringBuilder();
    for (int c; (c = requests.read()) >= 0;) {
      if (c != '\n') {
        line.append((char) c);
        continue;
      }
      String[] words = line.toString().split(" ");
      line.setLength(0);
      if (words[0].equals("run")) kernel.runCell(Long.parseLong(words[1]), Long.parseLong(words[3]));
    }
    System.exit(0);
  }
}
