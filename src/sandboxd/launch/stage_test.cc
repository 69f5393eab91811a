#include "sandboxd/launch/stage.h"

#include "sandboxd/launch/launch_fixture.h"
#include "sys/text_file.h"

namespace osb::sandboxd {
namespace {

class StageTest : public LaunchTest {
 protected:
  Result<Stage> stage() {
    StagePlan plan;
    plan.root = LayersRoot{{(dir_ / "layer").string()}, (dir_ / "upper").string(), (dir_ / "work").string()};
    plan.userns = userns_.get();
    plan.id_base = kBase;
    plan.netns = netns_.get();
    return build_stage(std::move(plan));
  }

  LaunchPlan staged(const std::string& script) {
    auto built = stage();
    EXPECT_TRUE(built) << built.error().message;
    LaunchPlan out = with_files(plan(script));
    if (built) out.stage = std::move(*built);
    return out;
  }

  static LaunchPlan with_files(LaunchPlan plan) {
    plan.etc_hosts = "127.0.0.1 localhost\n";
    plan.etc_resolv_conf = "nameserver 192.0.2.1\n";
    plan.etc_hostname = "box\n";
    return plan;
  }

  static long descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  }
};

constexpr const char* kLook =
    "cat /etc/hosts /etc/resolv.conf /etc/hostname; hostname; id; echo $$; ls -la /dev | grep -v total; ls /dev/pts; "
    "while read a b c d point rest; do echo $point ${rest%% - *}; done < /proc/self/mountinfo; ls /proc/acpi "
    "/sys/firmware; cat /proc/keys; echo x > /proc/sys/kernel/hostname; touch /sys/x; echo new > /new; ls -l /new";

// Without times and inode numbers.
std::string stable(const std::string& text) {
  std::string out;
  sys::for_each_line(text, [&](std::string_view line) {
    const bool listed =
        line.starts_with('-') || line.starts_with('c') || line.starts_with('d') || line.starts_with('l');
    const auto colon = listed ? line.find(':') : std::string_view::npos;
    out += colon == std::string_view::npos ? std::string(line)
                                           : std::string(line.substr(0, line.rfind(' ', line.rfind(' ', colon) - 1))) +
                                                 std::string(line.substr(colon + 3));
    out += '\n';
  });
  return out;
}

TEST_F(StageTest, LooksFromInsideAsIfTheLaunchHadBuiltIt) {
  const std::string first = output_of(with_files(plan(kLook)));
  for (const char* name : {"upper", "work"}) {
    std::filesystem::remove_all(dir_ / name);
    std::filesystem::create_directory(dir_ / name);
  }
  EXPECT_EQ(stable(output_of(staged(kLook))), stable(first));
  EXPECT_NE(first.find("/dev/mqueue"), std::string::npos) << first;
}

TEST_F(StageTest, ItsDirectoriesMayGetOtherNames) {
  std::filesystem::create_directory(dir_ / "parent");
  for (const char* name : {"upper", "work"}) std::filesystem::rename(dir_ / name, dir_ / "parent" / name);
  StagePlan wanted;
  wanted.root =
      LayersRoot{{(dir_ / "layer").string()}, (dir_ / "parent/upper").string(), (dir_ / "parent/work").string()};
  wanted.userns = userns_.get();
  wanted.id_base = kBase;
  wanted.netns = netns_.get();
  auto built = build_stage(std::move(wanted));
  ASSERT_TRUE(built) << built.error().message;
  std::filesystem::rename(dir_ / "parent", dir_ / "renamed");
  LaunchPlan after = with_files(plan("echo text > /new; cat /new"));
  after.stage = std::move(*built);
  EXPECT_EQ(output_of(std::move(after)), "text\n");
  EXPECT_EQ(sys::read_text((dir_ / "renamed/upper/new").string()).value_or(""), "text\n");
}

TEST_F(StageTest, TakesMountsReadOnlyRootAndNoFilesOfEtcButAllThree) {
  LaunchPlan wanted = staged("mkdir /x; echo $?; touch /tmp/a && echo writable");
  wanted.read_only_root = true;
  wanted.mounts.push_back(tmpfs("/tmp"));
  EXPECT_EQ(output_of(std::move(wanted)), "mkdir: can't create directory '/x': Read-only file system\n1\nwritable\n");
  LaunchPlan without;
  {
    for (const char* name : {"upper", "work"}) {
      std::filesystem::remove_all(dir_ / name);
      std::filesystem::create_directory(dir_ / name);
    }
    without = staged("true");
  }
  without.etc_hostname.clear();
  const auto refused = run(std::move(without));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::InvalidRequest);
}

TEST_F(StageTest, HasAnIpcNamespaceOfItsOwn) {
  const std::string outside = std::filesystem::read_symlink("/proc/self/ns/ipc").string();
  const std::string inside = output_of(staged("readlink /proc/self/ns/ipc"));
  EXPECT_TRUE(inside.starts_with("ipc:[")) << inside;
  EXPECT_NE(inside, outside + "\n");
}

TEST_F(StageTest, LeavesNothingWhenItFailsOrIsNotUsed) {
  (void)stage();  // what is opened once
  for (const char* name : {"upper", "work"}) {
    std::filesystem::remove_all(dir_ / name);
    std::filesystem::create_directory(dir_ / name);
  }
  const std::string mounts = sys::read_text("/proc/self/mountinfo").value_or("");
  const long before = descriptors();
  ASSERT_TRUE(stage());
  const auto failed = stage();
  ASSERT_FALSE(failed) << "work is used up";
  EXPECT_TRUE(failed.error().message.starts_with("stage: mount the overlay of ")) << failed.error().message;
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(sys::read_text("/proc/self/mountinfo").value_or(""), mounts);
}

}  // namespace
}  // namespace osb::sandboxd
