#!/bin/sh
# First process of the machine that run_in_uml.py boots. Its argument is the directory, on the host, where the plan is
# (`run`, a shell script) and where the answers go (`output`, `status`); then the type of its disk's file system.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH HOME=/root TMPDIR=/run/tmp
off() { busybox poweroff -f; }

# The root is the host's, read-only. Ours lies above it in memory, so that everything can be written and nothing stays.
modules=/usr/lib/uml/modules/$(uname -r)
busybox insmod "$modules/kernel/fs/overlayfs/overlay.ko" || off
mount -t tmpfs tmpfs /run || off
mkdir /run/upper /run/work /run/root
mount -t overlay -o lowerdir=/,upperdir=/run/upper,workdir=/run/work overlay /run/root || off
cd /run/root && busybox pivot_root . mnt || off
busybox umount -l /mnt

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm /lib/modules
mount -t devpts -o newinstance,ptmxmode=666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# Not over /tmp: the programs may lie there.
mount -t tmpfs tmpfs /run && mkdir -m 1777 /run/tmp
busybox ip link set lo up

# The kernel asks for modules by running this.
ln -sfn "$modules" "/lib/modules/$(uname -r)"
printf '#!/bin/sh\nexec busybox modprobe "$@"\n' >/run/modprobe
chmod +x /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe

if [ -b /dev/ubda ]; then
  mkdir -p /var/lib/opensandbox
  case $2 in xfs | ext4-quota) options=prjquota ;; *) options=defaults ;; esac
  mount -t "${2%-quota}" -o "$options" /dev/ubda /var/lib/opensandbox || off
fi

mount -t hostfs -o "$1" none /mnt || off
sh /mnt/run >/mnt/output 2>&1 </dev/null
echo $? >/mnt/status
sync
off
