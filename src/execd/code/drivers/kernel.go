// The Go kernel of execd. Requests come on descriptor 3, a socket; the code is in the file on descriptor 4. A cell becomes a
// program: the declarations of all cells so far, and the statements of this one as main. So declarations stay from run to
// run and values do not.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	socket   = 3
	codeFile = 4
	driver   = 5
	maxText  = 1<<19 - 64
	// A program that takes no interrupt is killed after this time.
	grace = time.Second
	youth = 10 * time.Minute
)

// ---- messages

type message struct {
	Type      string   `json:"type"`
	Run       int      `json:"run"`
	Name      string   `json:"ename,omitempty"`
	Value     string   `json:"evalue,omitempty"`
	Traceback []string `json:"traceback,omitempty"`
}

func send(said message) {
	body, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	frame := append([]byte(strconv.Itoa(len(body))+" "), body...)
	for len(frame) > 0 {
		n, err := syscall.Write(socket, frame)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			os.Exit(0)
		}
		frame = frame[n:]
	}
}

type failure struct {
	name, value string
	traceback   []string
}

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText] + fmt.Sprintf("... [%d bytes, cut]", len(text))
}

// ---- the parts of a cell

// A piece of a cell at its top: a declaration, an import or a statement.
type piece struct {
	keyword string // of a declaration: import, type, func, var, const; "" of a statement
	text    string
	place   string // "cell-3:7"
	names   []string
}

// Cuts at the semicolons, written or not, outside of all brackets.
func split(code, cell string) ([]piece, *failure) {
	files := token.NewFileSet()
	file := files.AddFile(cell, -1, len(code))
	var first *failure
	var scan scanner.Scanner
	scan.Init(file, []byte(code), func(at token.Position, text string) {
		if first == nil {
			first = compileFailure([]string{fmt.Sprintf("%s:%d: %s", cell, at.Line, text)})
		}
	}, 0)
	var pieces []piece
	var kinds []token.Token
	start, depth := -1, 0
	for {
		at, kind, _ := scan.Scan()
		offset := file.Offset(at)
		if start >= 0 && (kind == token.EOF || depth <= 0 && kind == token.SEMICOLON) {
			one := piece{keyword: keywordOf(kinds), text: code[start:offset], place: fmt.Sprintf("%s:%d", cell, file.Line(file.Pos(start)))}
			if len(kinds) < 2 || kinds[0] != token.PACKAGE {
				pieces = append(pieces, one)
			}
			start, depth, kinds = -1, 0, nil
		}
		if kind == token.EOF {
			return pieces, first
		}
		if kind == token.SEMICOLON && depth <= 0 {
			continue
		}
		if start < 0 {
			start = offset
		}
		kinds = append(kinds, kind)
		switch kind {
		case token.LPAREN, token.LBRACK, token.LBRACE:
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth--
		}
	}
}

func keywordOf(kinds []token.Token) string {
	switch kinds[0] {
	case token.IMPORT, token.TYPE, token.VAR, token.CONST:
		return kinds[0].String()
	case token.FUNC:
		if isDeclaredFunction(kinds) {
			return "func"
		}
	}
	return ""
}

// func name(, func name[ or func (receiver) name(; anything else is a function literal.
func isDeclaredFunction(kinds []token.Token) bool {
	at := 1
	if at < len(kinds) && kinds[at] == token.LPAREN {
		depth := 0
		for ; at < len(kinds); at++ {
			if kinds[at] == token.LPAREN {
				depth++
			}
			if kinds[at] == token.RPAREN {
				if depth--; depth == 0 {
					break
				}
			}
		}
		at++
	}
	return at+1 < len(kinds) && kinds[at] == token.IDENT && (kinds[at+1] == token.LPAREN || kinds[at+1] == token.LBRACK)
}

// The names that a declaration declares; methods as "Type.Method".
func (p *piece) findNames() *failure {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", "package p;"+p.text, 0)
	if err != nil {
		return compileFailure(parseErrors(err, p.place))
	}
	for _, declared := range parsed.Decls {
		switch each := declared.(type) {
		case *ast.FuncDecl:
			name := each.Name.Name
			if each.Recv != nil && len(each.Recv.List) == 1 {
				name = receiver(each.Recv.List[0].Type) + "." + name
			}
			p.names = append(p.names, name)
		case *ast.GenDecl:
			for _, spec := range each.Specs {
				switch one := spec.(type) {
				case *ast.TypeSpec:
					p.names = append(p.names, one.Name.Name)
				case *ast.ValueSpec:
					for _, name := range one.Names {
						if name.Name != "_" {
							p.names = append(p.names, name.Name)
						}
					}
				}
			}
		}
	}
	return nil
}

func receiver(of ast.Expr) string {
	switch each := of.(type) {
	case *ast.StarExpr:
		return receiver(each.X)
	case *ast.IndexExpr:
		return receiver(each.X)
	case *ast.Ident:
		return each.Name
	}
	return ""
}

func compileFailure(lines []string) *failure {
	return &failure{"CompilationError", lines[0], lines}
}

func parseErrors(err error, place string) []string {
	cell, line, _ := strings.Cut(place, ":")
	first, _ := strconv.Atoi(line)
	var lines []string
	if list, ok := err.(scanner.ErrorList); ok {
		for _, each := range list {
			lines = append(lines, fmt.Sprintf("%s:%d: %s", cell, first+each.Pos.Line-1, each.Msg))
		}
	}
	if lines == nil {
		lines = []string{place + ": " + err.Error()}
	}
	return lines
}

// ---- programs

type kernel struct {
	directory    string
	imports      map[string]string // the name that code uses, to the import's line
	declarations []piece
}

// Packages that need no import; an import of the cell with the same name comes first.
var known = map[string]string{}

func init() {
	for _, path := range strings.Fields(`bufio bytes context crypto/md5 crypto/sha256 encoding/base64 encoding/csv encoding/hex
		encoding/json errors flag fmt html io log math math/big math/bits net net/http net/url os os/exec path path/filepath
		reflect regexp runtime sort strconv strings sync sync/atomic testing text/tabwriter text/template time unicode
		unicode/utf8`) {
		known[path[strings.LastIndex(path, "/")+1:]] = strconv.Quote(path)
	}
	known["rand"] = strconv.Quote("math/rand")
}

var version = regexp.MustCompile(`^v[0-9]+$|\.v[0-9]+$`)

func (k *kernel) addImports(from piece, to map[string]string) *failure {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", "package p;"+from.text, parser.ImportsOnly)
	if err != nil {
		return compileFailure(parseErrors(err, from.place))
	}
	for _, each := range parsed.Imports {
		path, err := strconv.Unquote(each.Path.Value)
		if err != nil {
			continue
		}
		if each.Name != nil {
			name := each.Name.Name
			if name == "_" || name == "." {
				name += path
			}
			to[name] = each.Name.Name + " " + each.Path.Value
			continue
		}
		parts := strings.Split(path, "/")
		name := parts[len(parts)-1]
		if version.MatchString(name) && !strings.Contains(name, ".") && len(parts) > 1 {
			name = parts[len(parts)-2]
		}
		to[strings.TrimPrefix(version.ReplaceAllString(name, ""), "go-")] = each.Path.Value
	}
	return nil
}

// The program of a cell, and what the kernel knows after it has been compiled.
func (k *kernel) program(code, cell string) (string, *kernel, bool, *failure) {
	pieces, failed := split(code, cell)
	if failed != nil {
		return "", nil, false, failed
	}
	next := &kernel{directory: k.directory, imports: map[string]string{}}
	for name, line := range k.imports {
		next.imports[name] = line
	}
	var added, statements []piece
	hasMain := false
	for _, each := range pieces {
		switch each.keyword {
		case "":
			statements = append(statements, each)
			continue
		case "import":
			if failed := k.addImports(each, next.imports); failed != nil {
				return "", nil, false, failed
			}
			continue
		}
		if failed := each.findNames(); failed != nil {
			return "", nil, false, failed
		}
		hasMain = hasMain || len(each.names) == 1 && each.names[0] == "main"
		added = append(added, each)
	}
	if hasMain && len(statements) > 0 {
		return "", nil, false, compileFailure([]string{statements[0].place + ": a cell has either func main or statements outside of functions"})
	}
	replaced := map[string]bool{}
	for _, each := range added {
		for _, name := range each.names {
			replaced[name] = true
		}
	}
	for _, each := range k.declarations {
		again := false
		for _, name := range each.names {
			again = again || replaced[name]
		}
		if !again {
			next.declarations = append(next.declarations, each)
		}
	}
	next.declarations = append(next.declarations, added...)
	source := next.source(statements, hasMain)
	var kept []piece
	for _, each := range next.declarations {
		if len(each.names) != 1 || each.names[0] != "main" {
			kept = append(kept, each)
		}
	}
	next.declarations = kept
	return source, next, hasMain || len(statements) > 0, nil
}

func (k *kernel) source(statements []piece, hasMain bool) string {
	var body strings.Builder
	write := func(each piece) {
		fmt.Fprintf(&body, "//line %s\n%s\n", each.place, each.text)
	}
	for _, each := range k.declarations {
		write(each)
	}
	if !hasMain {
		body.WriteString("func main() {\n")
		for _, each := range statements {
			write(each)
		}
		body.WriteString("}\n")
	}
	var out strings.Builder
	out.WriteString("package main\n")
	for _, line := range k.usedImports(body.String()) {
		fmt.Fprintf(&out, "import %s\n", line)
	}
	return out.String() + body.String()
}

// Go refuses imports that are not used.
func (k *kernel) usedImports(body string) []string {
	lines := map[string]bool{}
	for name, line := range k.imports {
		if strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
			lines[line] = true
		}
	}
	parsed, _ := parser.ParseFile(token.NewFileSet(), "", "package main\n"+body, 0)
	if parsed == nil {
		return nil
	}
	declared := map[string]bool{}
	for _, each := range k.declarations {
		for _, name := range each.names {
			declared[name] = true
		}
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name, ok := selector.X.(*ast.Ident)
		if !ok || name.Obj != nil || declared[name.Name] {
			return true
		}
		if line, ok := k.imports[name.Name]; ok {
			lines[line] = true
		} else if line, ok := known[name.Name]; ok {
			lines[line] = true
		}
		return true
	})
	var out []string
	for line := range lines {
		out = append(out, line)
	}
	sort.Strings(out)
	return out
}

// ---- runs

// The child of the run, which an interrupt reaches.
type current struct {
	sync.Mutex
	process     *os.Process
	interrupted bool
	interrupts  int           // how many have come so far
	noted       chan struct{} // gets a value when one has come
}

// execd sends the interrupt to the whole process group: the child has it already.
func (c *current) watch(signals <-chan os.Signal) {
	for range signals {
		c.Lock()
		c.interrupted = true
		c.interrupts++
		select {
		case c.noted <- struct{}{}:
		default:
		}
		if process := c.process; process != nil {
			time.AfterFunc(grace, func() {
				c.Lock()
				defer c.Unlock()
				if c.process == process {
					process.Kill()
				}
			})
		}
		c.Unlock()
	}
}

func (c *current) run(command *exec.Cmd) (error, bool) {
	c.Lock()
	if c.interrupted {
		c.Unlock()
		return nil, true
	}
	err := command.Start()
	if err == nil {
		c.process = command.Process
	}
	c.Unlock()
	if err == nil {
		err = command.Wait()
	}
	if endedByInterrupt(err) {
		c.waitForInterrupt()
	}
	c.Lock()
	defer c.Unlock()
	c.process = nil
	return err, c.interrupted || endedByInterrupt(err)
}

// A new run. Of interrupts, `sent` were sent for the runs before it.
func (c *current) begin(sent int) {
	late := time.After(grace)
	c.Lock()
	defer c.Unlock()
	for c.interrupts < sent {
		c.Unlock()
		select {
		case <-c.noted:
			c.Lock()
		case <-late:
			c.Lock()
			c.interrupts = sent
		}
	}
	c.interrupted = false
	select {
	case <-c.noted:
	default:
	}
}

// The child may end of the signal before this process has heard of it. It must not be taken for one of the next run.
func (c *current) waitForInterrupt() {
	select {
	case <-c.noted:
	case <-time.After(grace):
	}
}

func endedByInterrupt(err error) bool {
	exit, ok := err.(*exec.ExitError)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGINT
}

var interruptedFailure = &failure{"KeyboardInterrupt", "the code was interrupted", nil}

// The directory and the variables of one run: as many bytes of the code's file as `head` says.
func settings(text string) (string, []string) {
	words := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	return words[0], words[1:]
}

// As `go run` builds: without the tables of debuggers, which take a third of the time, and without a look at git.
func buildFlags() []string {
	flags := []string{"-buildvcs=false"}
	if !strings.Contains(os.Getenv("GOFLAGS"), "-ldflags") {
		flags = append(flags, "-ldflags=-s -w")
	}
	return flags
}

func (k *kernel) runCell(number, head int, child *current) (*kernel, *failure) {
	cell := fmt.Sprintf("cell-%d", number)
	text, err := readCode()
	if err != nil {
		return k, &failure{"OSError", "the code cannot be read: " + err.Error(), nil}
	}
	if head > len(text) {
		head = len(text)
	}
	source, next, runs, failed := k.program(text[head:], cell)
	if failed != nil {
		return k, failed
	}
	file, binary := filepath.Join(k.directory, "cell.go"), filepath.Join(k.directory, "cell")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		return k, &failure{"OSError", err.Error(), nil}
	}
	build := exec.Command("go", append([]string{"build", "-o", binary}, append(buildFlags(), file)...)...)
	said, err := os.CreateTemp(k.directory, "said")
	if err != nil {
		return k, &failure{"OSError", err.Error(), nil}
	}
	defer os.Remove(said.Name())
	defer said.Close()
	build.Stdout, build.Stderr = said, said
	// A build that is interrupted leaves its files behind.
	base := os.Getenv("GOTMPDIR")
	if base == "" {
		base = k.directory
	}
	work, err := os.MkdirTemp(base, "build")
	if err != nil {
		return k, &failure{"OSError", err.Error(), nil}
	}
	defer os.RemoveAll(work)
	build.Env = append(os.Environ(), "GOTMPDIR="+work)
	if err, stopped := child.run(build); stopped {
		return k, interruptedFailure
	} else if err != nil {
		text, _ := os.ReadFile(said.Name())
		if len(text) == 0 || strings.Contains(string(text), "signal: interrupt") {
			child.waitForInterrupt() // a compiler that fails says why
			return k, interruptedFailure
		}
		return k, compileFailure(buildErrors(string(text), err))
	}
	if !runs {
		return next, nil
	}
	program := exec.Command(binary)
	program.Stdout, program.Stderr = os.Stdout, os.Stderr
	if head > 0 {
		directory, variables := settings(text[:head])
		program.Dir, program.Env = directory, append(os.Environ(), variables...)
	}
	err, stopped := child.run(program)
	os.Remove(binary)
	if stopped {
		return next, interruptedFailure
	}
	if err != nil {
		return next, &failure{"ExitError", err.Error(), []string{err.Error()}}
	}
	return next, nil
}

func buildErrors(text string, err error) []string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "note: ") {
			continue
		}
		// The compiler puts the directory of the source in front of the cell's name.
		if at := strings.Index(line, "cell-"); at > 0 && !strings.Contains(line[:at], " ") {
			line = line[at:]
		}
		lines = append(lines, cut(line))
	}
	if lines == nil {
		lines = []string{err.Error()}
	}
	return lines
}

// By system calls: the garbage collector closes the descriptor of an os.File that nothing refers to.
func readCode() (string, error) {
	var info syscall.Stat_t
	if err := syscall.Fstat(codeFile, &info); err != nil {
		return "", err
	}
	text := make([]byte, info.Size)
	for at := 0; at < len(text); {
		n, err := syscall.Pread(codeFile, text[at:], int64(at))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return "", err
		}
		if n == 0 {
			return "", io.ErrUnexpectedEOF
		}
		at += n
	}
	return string(text), nil
}

// ---- the directory

// Each kernel locks its directory. The directories of kernels that were killed are removed by a later one; a young
// directory may be that of a kernel which just starts.
func claim(directory string) {
	lock := func(of string) (int, error) {
		fd, err := syscall.Open(filepath.Join(of, "kernel"), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		return fd, syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if _, err := lock(directory); err != nil {
		fmt.Fprintln(os.Stderr, "cannot lock", directory, err)
		os.Exit(1)
	}
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(directory), "opensandbox-go.*"))
	for _, other := range others {
		info, err := os.Stat(filepath.Join(other, "kernel"))
		if err != nil || time.Since(info.ModTime()) < youth {
			continue
		}
		fd, err := lock(other)
		if err == nil {
			os.RemoveAll(other)
		}
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
}

func main() {
	for _, fd := range []int{socket, codeFile, driver} {
		syscall.CloseOnExec(fd)
	}
	directory := os.Args[1]
	claim(directory)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT)
	child := &current{noted: make(chan struct{}, 1)}
	go child.watch(signals)
	state := &kernel{directory: directory, imports: map[string]string{}}
	send(message{Type: "ready"})
	var line []byte
	buffer := make([]byte, 4096)
	for {
		n, err := syscall.Read(socket, buffer)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		for _, c := range buffer[:n] {
			if c != '\n' {
				line = append(line, c)
				continue
			}
			var number, head, interrupts int
			if got, _ := fmt.Sscanf(string(line), "run %d %d %d", &number, &head, &interrupts); got == 3 {
				child.begin(interrupts)
				send(message{Type: "started", Run: number})
				var failed *failure
				if state, failed = state.runCell(number, head, child); failed != nil {
					send(message{Type: "error", Run: number, Name: failed.name, Value: cut(failed.value), Traceback: failed.traceback})
				}
				send(message{Type: "done", Run: number})
			}
			line = nil
		}
	}
	os.RemoveAll(directory)
}
