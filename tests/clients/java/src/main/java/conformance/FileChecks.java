package conformance;

import static conformance.Suite.check;
import static conformance.Suite.inSandbox;
import static conformance.Suite.refused;
import static conformance.Suite.same;

import com.alibaba.opensandbox.sandbox.Sandbox;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.EntryInfo;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.MoveEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SetPermissionEntry;
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry;
import com.alibaba.opensandbox.sandbox.domain.services.Filesystem;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;

final class FileChecks {
    private static final List<String> ODD_NAMES = List.of("with space", "quo'te\"s", "per%20cent", "ha#sh", "what?",
            "a&b=c", "plus+plus", "ünï-三.txt", "new\nline", "-dash", "back\\slash", "semi;colon", "*star", "~tilde",
            ".hidden");
    private static final int BIG = 64 << 20;

    static void add(Map<String, Suite.Check> checks) {
        checks.put("files: every operation", () -> inSandbox(FileChecks::everyOperation));
        checks.put("files: big", () -> inSandbox(FileChecks::big));
        checks.put("files: odd names", () -> inSandbox(FileChecks::oddNames));
    }

    private static WriteEntry.Builder entry(String path, Object data) {
        return WriteEntry.builder().path(path).data(data);
    }

    private static EntryInfo info(Filesystem files, String path) {
        return files.readFileInfo(List.of(path)).get(path);
    }

    private static void move(Filesystem files, String from, String to) {
        files.moveFiles(List.of(MoveEntry.builder().src(from).dest(to).build()));
    }

    private static TreeSet<String> found(Filesystem files, String path, String pattern) {
        final TreeSet<String> out = new TreeSet<>();
        files.search(SearchEntry.builder().path(path).pattern(pattern).build()).forEach(each -> out.add(each.getPath()));
        return out;
    }

    private static void gone(Filesystem files, String path) {
        same(refused("info of " + path, () -> info(files, path)).getStatusCode(), 404, "status of " + path);
    }

    private static String everyOperation(Sandbox sandbox) throws Exception {
        final Filesystem files = sandbox.files();
        files.createDirectories(List.of(WriteEntry.builder().path("/tmp/d/e").mode(750).build()));
        same(info(files, "/tmp/d/e").getMode(), 750, "mode of a directory");

        final byte[] bytes = new byte[512];
        for (int i = 0; i < bytes.length; ++i) bytes[i] = (byte) i;
        files.write(List.of(entry("/tmp/d/text", "one\ntwo\nthree ä\n").mode(640).build(),
                entry("/tmp/d/bytes", bytes).mode(600).build(),
                entry("/tmp/d/e/stream", new ByteArrayInputStream(bytes)).build()));
        files.writeFile("/tmp/d/short", "a");
        same(files.readFile("/tmp/d/text"), "one\ntwo\nthree ä\n", "text");
        same(files.readFile("/tmp/d/text", "UTF-8", "bytes=4-6"), "two", "a range of text");
        same(HexFormat.of().formatHex(files.readByteArray("/tmp/d/bytes")), HexFormat.of().formatHex(bytes), "bytes");
        same(HexFormat.of().formatHex(files.readByteArray("/tmp/d/bytes", "bytes=510-")), "feff", "a range of bytes");
        try (InputStream stream = files.readStream("/tmp/d/e/stream")) {
            same(HexFormat.of().formatHex(stream.readAllBytes()), HexFormat.of().formatHex(bytes), "a stream");
        }

        final EntryInfo text = info(files, "/tmp/d/text");
        same(text.getPath(), "/tmp/d/text", "path");
        same(text.getSize(), 17L, "size");
        same(text.getMode(), 640, "mode");
        same(text.getOwner() + ":" + text.getGroup(), "root:root", "owner");
        check(text.getModifiedAt() != null && text.getCreatedAt() != null, "times are missing");
        same(files.readFileInfo(List.of("/tmp/d/text", "/tmp/d/bytes")).size(), 2, "infos of two files");

        same(found(files, "/tmp/d", "*t*"), new TreeSet<>(List.of("/tmp/d/text", "/tmp/d/bytes", "/tmp/d/short",
                "/tmp/d/e/stream")), "search");
        files.replaceContents(List.of(ContentReplaceEntry.builder()
                .path("/tmp/d/text").oldContent("two").newContent("zwei").build()));
        same(files.readFile("/tmp/d/text"), "one\nzwei\nthree ä\n", "replaced text");
        files.setPermissions(List.of(SetPermissionEntry.builder()
                .path("/tmp/d/text").mode(600).owner("nobody").group("root").build()));
        same(info(files, "/tmp/d/text").getMode(), 600, "mode that was set");
        same(info(files, "/tmp/d/text").getOwner(), "nobody", "owner that was set");
        move(files, "/tmp/d/text", "/tmp/d/e/moved");
        gone(files, "/tmp/d/text");
        same(files.readFile("/tmp/d/e/moved"), "one\nzwei\nthree ä\n", "text that was moved");
        files.deleteFiles(List.of("/tmp/d/bytes", "/tmp/d/e/moved"));
        gone(files, "/tmp/d/bytes");
        files.deleteDirectories(List.of("/tmp/d"));
        gone(files, "/tmp/d/e/stream");
        return "the client has no call to list a directory";
    }

    private static String big(Sandbox sandbox) throws Exception {
        final byte[] data = new byte[BIG];
        new Random(1).nextBytes(data);
        final String sum = sha256(data);
        sandbox.files().writeFile("/tmp/big", data);
        same(CommandChecks.output(sandbox, "sha256sum < /tmp/big | cut -d' ' -f1"), sum, "checksum inside");
        same(sha256(sandbox.files().readByteArray("/tmp/big")), sum, "checksum of what was read");
        return "";
    }

    private static String sha256(byte[] data) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    }

    private static String oddNames(Sandbox sandbox) {
        final Filesystem files = sandbox.files();
        files.createDirectories(List.of(WriteEntry.builder().path("/tmp/odd/moved").build()));
        final List<String> all = new ArrayList<>();
        for (final String name : ODD_NAMES) {
            final String path = "/tmp/odd/" + name;
            files.writeFile(path, "I am " + name);
            same(files.readFile(path), "I am " + name, name);
            same(info(files, path).getPath(), path, "path");
            all.add(path);
        }
        same(found(files, "/tmp/odd", "*"), new TreeSet<>(all), "search");
        for (final String path : all) {
            final String to = path.replace("/tmp/odd/", "/tmp/odd/moved/");
            move(files, path, to);
            gone(files, path);
            same(files.readFile(to), "I am " + path.substring("/tmp/odd/".length()), to);
            files.deleteFiles(List.of(to));
            gone(files, to);
        }
        same(CommandChecks.output(sandbox, "find /tmp/odd -type f | wc -l"), "0", "files that are left");
        return "";
    }

    private FileChecks() {}
}
