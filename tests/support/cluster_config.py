"""Files and command lines of the programs of a Cluster, and its network."""

import functools
import json
import ssl
import subprocess
import textwrap

ADDRESS = "172.30.0.1"  # the node's, on a bridge without ports
PODS, SERVICES, API_SERVICE = "10.244.0.0/16", "10.96.0.0/16", "10.96.0.1"
PORT = 6443


class Settings:
    token = "administrator-of-the-tests"
    url = f"https://{ADDRESS}:{PORT}"

    def __init__(self, directory, programs, node, cgroup):
        self.directory, self.programs, self.node, self.cgroup = directory, programs, node, cgroup
        self.kubeconfig = directory / "kubeconfig"
        self.containerd_socket = directory / "containerd.sock"
        self._make_network()
        self._make_certificates()

    @staticmethod
    def _make_network():
        for line in (f"link add osbnode type bridge", f"addr add {ADDRESS}/24 dev osbnode", "link set osbnode up",
                     # Without it the kubelet waits for a cloud's metadata server.
                     "route replace unreachable default", f"route replace {SERVICES} dev osbnode"):
            subprocess.run(["ip", *line.split()], check=True)
        with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
            file.write("1")
        for chain in ("PREROUTING", "OUTPUT"):
            subprocess.run(["iptables", "-t", "nat", "-A", chain, "-d", API_SERVICE, "-p", "tcp", "--dport", "443", "-j",
                            "DNAT", "--to-destination", f"{ADDRESS}:{PORT}"], check=True)

    def _openssl(self, *arguments):
        done = subprocess.run(["openssl", *map(str, arguments)], cwd=self.directory, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def _make_certificates(self):
        subject = ["-nodes", "-newkey", "rsa:2048", "-days", "30"]
        self._openssl("req", "-x509", *subject, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=osb-test-ca",
                      "-addext", "keyUsage=critical,keyCertSign")
        names = f"IP:{ADDRESS},IP:127.0.0.1,IP:{API_SERVICE},DNS:kubernetes,DNS:kubernetes.default.svc,DNS:localhost"
        (self.directory / "names").write_text(f"subjectAltName={names}\n")
        self._openssl("req", *subject, "-keyout", "api.key", "-out", "api.csr", "-subj", "/CN=kube-apiserver")
        self._openssl("x509", "-req", "-in", "api.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                      30, "-extfile", "names", "-out", "api.crt")
        self._openssl("genrsa", "-out", "accounts.key", 2048)

    def trust(self):
        return ssl.create_default_context(cafile=str(self.directory / "ca.crt"))

    def _write(self, name, text):
        (self.directory / name).write_text(textwrap.dedent(text))

    def write(self):
        self._write("tokens.csv", f'{self.token},admin,admin,"system:masters"\n')
        self._write("kubeconfig", json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url,
                                                      "certificate-authority": str(self.directory / "ca.crt")}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin", "namespace": "default"}}]}))
        self._write("kubelet.json", json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}, "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.cgroup}",
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                             "imagefs.available": "0%"},
            "failSwapOn": False, "makeIPTablesUtilChains": False, "nodeStatusUpdateFrequency": "1s",
            "syncFrequency": "1s", "maxPods": 250, "healthzPort": 0, "imageGCHighThresholdPercent": 100}))
        self._write("containerd.toml", f"""\
            version = 2
            root = "{self.directory}/containerd"
            state = "{self.directory}/containerd-state"
            [grpc]
              address = "{self.containerd_socket}"
            [plugins."io.containerd.internal.v1.opt"]
              path = "{self.directory}/containerd-opt"
            [plugins."io.containerd.grpc.v1.cri"]
              sandbox_image = "docker.io/library/pause:test"
              restrict_oom_score_adj = true
              netns_mounts_under_state_dir = true
              [plugins."io.containerd.grpc.v1.cri".registry]
                config_path = "{self.directory}/registries"
              [plugins."io.containerd.grpc.v1.cri".cni]
                bin_dir = "/usr/lib/cni"
                conf_dir = "{self.directory}/cni"
              [plugins."io.containerd.grpc.v1.cri".containerd]
                snapshotter = "overlayfs"
            """)
        (self.directory / "cni").mkdir()
        self._write("cni/10-bridge.conflist", json.dumps({
            "cniVersion": "0.4.0", "name": "pods", "plugins": [
                {"type": "bridge", "bridge": "osbpods", "isGateway": True, "hairpinMode": True,
                 "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))

    @functools.cache
    def commands(self):
        here, kubeconfig = self.directory, f"--kubeconfig={self.kubeconfig}"
        accounts = f"{here}/accounts.key"
        return {
            "etcd": ["etcd", "--data-dir", here / "etcd", "--unsafe-no-fsync", "--log-level", "warn",
                     "--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
                     "--listen-peer-urls", "http://127.0.0.1:2380"],
            "kube-apiserver": [
                self.programs / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", f"--advertise-address={ADDRESS}",
                f"--secure-port={PORT}", f"--service-cluster-ip-range={SERVICES}", f"--cert-dir={here}/api",
                f"--tls-cert-file={here}/api.crt", f"--tls-private-key-file={here}/api.key",
                f"--token-auth-file={here}/tokens.csv", "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={accounts}",
                f"--service-account-signing-key-file={accounts}", "--kubelet-preferred-address-types=InternalIP",
                "--allow-privileged=true", "--feature-gates=TTLAfterFinished=true", "--v=1"],
            "kube-controller-manager": [
                self.programs / "kube-controller-manager", kubeconfig, "--leader-elect=false",
                f"--root-ca-file={here}/ca.crt", f"--service-account-private-key-file={accounts}",
                "--feature-gates=TTLAfterFinished=true", f"--cert-dir={here}/manager", "--v=1"],
            "kube-scheduler": [self.programs / "kube-scheduler", kubeconfig, "--leader-elect=false",
                               f"--cert-dir={here}/scheduler", "--v=1"],
            "containerd": ["containerd", "--config", here / "containerd.toml", "--log-level", "warn"],
            "kubelet": [
                self.programs / "kubelet", kubeconfig, f"--config={here}/kubelet.json", "--container-runtime=remote",
                f"--container-runtime-endpoint=unix://{self.containerd_socket}", f"--root-dir={here}/kubelet",
                f"--cert-dir={here}/kubelet-certificates", f"--hostname-override={self.node}", f"--node-ip={ADDRESS}",
                "--v=1"],
        }
