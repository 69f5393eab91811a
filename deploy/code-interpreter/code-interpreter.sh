#!/bin/bash
# The entrypoint of the image code-interpreter, at /opt/code-interpreter/code-interpreter.sh. Chooses the versions of the
# languages by PYTHON_VERSION, JAVA_VERSION, NODE_VERSION and GO_VERSION, for commands, code and interactive shells; then
# runs its arguments, or waits. execd runs the code itself: no server has to be started.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# For hosts whose container engine does not know clone3.
workaround=${CODE_INTERPRETER_CLONE3:-/usr/local/bin/clone3-workaround}
case ${EXECD_CLONE3_COMPAT:-} in
  1 | true | yes | on | reexec)
    if [[ -z ${_CODE_INTERPRETER_CLONE3_WRAPPED:-} ]]; then
      if [[ -x $workaround ]]; then
        _CODE_INTERPRETER_CLONE3_WRAPPED=1 exec "$workaround" "$0" "$@"
      fi
      echo "code-interpreter: EXECD_CLONE3_COMPAT is set, but $workaround is not there: going on without it" >&2
    fi
    unset EXECD_CLONE3_COMPAT
    ;;
  "" | 0 | false | off | no) ;;
  *)
    echo "code-interpreter: EXECD_CLONE3_COMPAT=$EXECD_CLONE3_COMPAT: use 1, true, yes, on, reexec, or 0, false, no, off" >&2
    exit 1
    ;;
esac

bashrc=${BASHRC_FILE:-/root/.bashrc}
choose() { # LANGUAGE VERSION
  source "$here/code-interpreter-env.sh" "$1" "$2"
  [[ -n $2 ]] || return 0
  local line="source $here/code-interpreter-env.sh $1 $2 # code-interpreter"
  touch "$bashrc" 2>/dev/null || return 0
  local rest
  rest=$(grep -v -F "source $here/code-interpreter-env.sh $1 " "$bashrc")
  printf '%s\n' ${rest:+"$rest"} "$line" >"$bashrc"
}
choose python "${PYTHON_VERSION:-}"
choose java "${JAVA_VERSION:-}"
choose node "${NODE_VERSION:-}"
choose go "${GO_VERSION:-}"
if command -v go >/dev/null; then
  PATH=$(go env GOPATH)/bin:$PATH
  export PATH
  [[ -z ${EXECD_ENVS:-} ]] || echo "PATH=$PATH" >>"$EXECD_ENVS"
fi

[[ $# -eq 0 ]] || exec "$@"
exec tail -f /dev/null
