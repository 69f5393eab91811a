#!/opt/opensandbox/execd --keep-core-limit
# A script for /bin/sh, which execd starts with a limit of core files that stays: nothing of the image runs before.
#
# Entrypoint of a sandbox with a user's image: starts execd next to the user's process and ends with that process.
#
#   bootstrap.sh COMMAND [ARGUMENT...]     runs it as it is
#   bootstrap.sh -c WORD...                runs the words as one shell command
#   bootstrap.sh                           runs an interactive shell
#
# EXECD                        the daemon (default /opt/opensandbox/execd)
# EXECD_ENVS                   file of variables for commands (default /opt/opensandbox/.env)
# EXECD_BOOTSTRAP_PRE_SCRIPT   sourced before anything starts
# BOOTSTRAP_CMD                a shell command that replaces the arguments
# BOOTSTRAP_SHELL              the shell (default bash, else sh)
# EXECD_NO_SET_ID              1: no file gets a setuid or setgid bit; read by execd before this script runs
# EXECD_INIT                   truthy: execd takes the place of this script and is the init of the user's process
# OPENSANDBOX_LIFECYCLE        hooks (docs/lifecycle-hooks.md); OPEN_SANDBOX_LIFECYCLE is its older name.
#                              EXECD_LIFECYCLE_CONFIG names a file of hooks, which execd refuses
# OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT
#                              truthy: wait for the egress proxy's certificate and trust it
set -e

home=/opt/opensandbox
ca_file=$home/mitmproxy-ca-cert.pem
# With a certificate in its environment execd has run before this script, and programs trust it but browsers.
execd_trusts=
case "${NODE_EXTRA_CA_CERTS:-}" in
  */mitmproxy-ca-cert.pem) ca_file=$NODE_EXTRA_CA_CERTS execd_trusts=1 ;;
esac
ca_bundle=${ca_file%/*}/merged-ca-certificates.pem

warn() {
  echo "bootstrap: $*" >&2
}

is_true() {
  case "$1" in
    1 | [Tt][Rr][Uu][Ee] | [Yy][Ee][Ss] | [Oo][Nn]) return 0 ;;
  esac
  return 1
}

# Runs a command with the rights to change the system's files.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo -n "$@"
  else
    return 1
  fi
}

# The certificate is written by another container, which may start after this one.
wait_for_ca() {
  seconds=0
  while [ ! -s "$ca_file" ]; do
    if [ "$seconds" -ge 300 ]; then return 1; fi
    sleep 1
    seconds=$((seconds + 1))
  done
}

install_ca() {
  if command -v update-ca-certificates >/dev/null 2>&1; then
    anchor=/usr/local/share/ca-certificates/opensandbox-mitmproxy-ca.crt
    refresh=update-ca-certificates
  elif command -v update-ca-trust >/dev/null 2>&1; then
    anchor=/etc/pki/ca-trust/source/anchors/opensandbox-mitmproxy-ca.pem
    refresh=update-ca-trust
  else
    warn "no tool to add a system certificate; programs must use SSL_CERT_FILE"
    return 0
  fi
  as_root mkdir -p "${anchor%/*}" && as_root cp "$ca_file" "$anchor" && as_root "$refresh" >/dev/null 2>&1 ||
    warn "the system's certificates could not be updated"
}

# The certificates that the image trusts by itself.
find_bundle() {
  certifi=
  for python in python3 python; do
    if command -v "$python" >/dev/null 2>&1; then
      certifi=$("$python" -c 'import certifi; print(certifi.where())' 2>/dev/null) && break
      certifi=
    fi
  done
  for candidate in "$certifi" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
    /etc/ssl/cert.pem /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem; do
    if [ -n "$candidate" ] && [ -s "$candidate" ] && [ -r "$candidate" ]; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

merge_bundle() {
  base=$(find_bundle) || return 1
  { cat "$base" && echo && cat "$ca_file"; } >"$ca_bundle" 2>/dev/null
}

# Browsers keep their own list.
trust_in_browsers() {
  command -v certutil >/dev/null 2>&1 || return 0
  [ -n "${HOME:-}" ] || return 0
  database=$HOME/.pki/nssdb
  if [ ! -d "$database" ]; then
    { mkdir -p "$database" && certutil -N -d "sql:$database" --empty-password; } >/dev/null 2>&1 || return 1
  fi
  certutil -A -d "sql:$database" -n opensandbox-mitmproxy -t C,, -i "$ca_file" >/dev/null 2>&1
}

# Java keeps its own list, too: one per installation.
trust_in_java() {
  command -v keytool >/dev/null 2>&1 || return 0
  keytool=$(readlink -f "$(command -v keytool)") || return 1
  java=${keytool%/bin/*}
  for store in "${JAVA_HOME:-$java}/lib/security/cacerts" "${JAVA_HOME:-$java}/jre/lib/security/cacerts"; do
    [ -f "$store" ] || continue
    as_root "$keytool" -delete -alias opensandbox-mitmproxy -keystore "$store" -storepass changeit >/dev/null 2>&1 || true
    as_root "$keytool" -importcert -noprompt -alias opensandbox-mitmproxy -file "$ca_file" -keystore "$store" \
      -storepass changeit >/dev/null 2>&1 || return 1
  done
}

trust_egress_proxy() {
  if [ -n "$execd_trusts" ]; then
    trust_in_browsers || warn "the browsers' certificates could not be updated"
    return 0
  fi
  if ! wait_for_ca; then
    warn "no certificate at $ca_file after 300 seconds, going on without"
    return 0
  fi
  install_ca || warn "the egress proxy's certificate could not be installed"
  if merge_bundle; then
    trusted=$ca_bundle
  else
    warn "no certificates of the image to add to, using the egress proxy's alone"
    trusted=$ca_file
  fi
  trust_in_browsers || warn "the browsers' certificates could not be updated"
  trust_in_java || warn "Java's certificates could not be updated"
  export NODE_EXTRA_CA_CERTS="$ca_file" REQUESTS_CA_BUNDLE="$trusted" SSL_CERT_FILE="$trusted"
}

# Until the user's process runs, SIGTERM and SIGINT end this script. Without a trap the first process of a container
# ignores them.
trap 'exit 0' TERM INT

if is_true "${OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT:-}"; then
  trust_egress_proxy || warn "the egress proxy's certificate could not be trusted"
fi

EXECD=${EXECD:-$home/execd}
EXECD_ENVS=${EXECD_ENVS:-$home/.env}
export EXECD_ENVS
case "$EXECD_ENVS" in
  */*) mkdir -p "${EXECD_ENVS%/*}/" 2>/dev/null || warn "cannot make the directory of $EXECD_ENVS" ;;
esac
# In a subshell: a redirection that fails would end this one.
(: >>"$EXECD_ENVS") 2>/dev/null || warn "cannot write $EXECD_ENVS"

if [ -n "${EXECD_BOOTSTRAP_PRE_SCRIPT:-}" ]; then
  case "$EXECD_BOOTSTRAP_PRE_SCRIPT" in
    */*) pre_script=$EXECD_BOOTSTRAP_PRE_SCRIPT ;;
    *) pre_script=./$EXECD_BOOTSTRAP_PRE_SCRIPT ;;
  esac
  if [ -f "$pre_script" ] && [ -r "$pre_script" ]; then
    . "$pre_script"
  else
    warn "EXECD_BOOTSTRAP_PRE_SCRIPT: cannot read $pre_script"
  fi
fi

shell=${BOOTSTRAP_SHELL:-}
if [ -z "$shell" ]; then
  shell=$(command -v bash || command -v sh || true)
fi
if [ -z "$shell" ]; then
  warn "no shell: neither BOOTSTRAP_SHELL nor bash nor sh"
  exit 1
fi

if [ -n "${BOOTSTRAP_CMD:-}" ]; then
  set -- "$shell" -c "$BOOTSTRAP_CMD"
elif [ "${1:-}" = -c ]; then
  shift
  set -- "$shell" -c "$*"
elif [ "$#" -eq 0 ]; then
  set -- "$shell" -i
fi

# Not inherited: a child that still had the handler would swallow a signal that is passed on before its exec.
trap - TERM INT
# Standard output is the user's alone: execd's banner goes nowhere, what it logs to standard error.
log=${EXECD_LOG_FILE:-${OPENSANDBOX_LOG_OUTPUT:-stderr}}
if is_true "${EXECD_INIT:-}"; then
  EXECD_LOG_FILE=$log exec "$EXECD" --init -- "$@"
fi
# With hooks execd is the parent of all: it starts the user's process when the preStart hook has succeeded, and ends with
# it. Execd keeps the hooks from the user's processes.
if [ -n "${OPENSANDBOX_LIFECYCLE:-}${OPEN_SANDBOX_LIFECYCLE:-}${EXECD_LIFECYCLE_CONFIG:-}" ]; then
  EXECD_LOG_FILE=$log exec "$EXECD" --after-entrypoint end -- "$@"
fi
unset OPENSANDBOX_LIFECYCLE OPEN_SANDBOX_LIFECYCLE
# The user's process gets our input, which a shell would otherwise take from a background job.
exec 3<&0
EXECD_LOG_FILE=$log "$EXECD" </dev/null >/dev/null 3<&- &
"$@" <&3 3<&- &
user=$!
exec 3<&-

# A background job of a shell ignores SIGINT, so the user's process gets SIGTERM for both.
forward_end() {
  trap '' TERM INT
  kill -TERM "$user" 2>/dev/null || true
  wait "$user" || true
  exit 0
}
trap forward_end INT TERM

status=0
wait "$user" || status=$?
exit "$status"
