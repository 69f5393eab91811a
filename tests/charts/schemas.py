"""Schemas of the kinds that the charts make: the fields that Kubernetes 1.20 knows, as far as the charts use them. A
field that is not listed is an error, as it is for `kubectl apply` with validation."""


def fields(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def listed(item):
    return {"type": "array", "items": item}


TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
PORT_OR_NAME = {"anyOf": [PORT, {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,14}$"}]}
QUANTITY = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|Ki|Mi|Gi)?$"}
LABEL = {"type": "string", "pattern": r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"}
LABELS = {"type": "object", "additionalProperties": LABEL}
TEXTS = {"type": "object", "additionalProperties": TEXT}
METADATA = fields(["name"], name=NAME, namespace=NAME, labels=LABELS, annotations=TEXTS)
EXPRESSION = fields(["key", "operator"], key=TEXT, operator={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]}, values=listed(TEXT))
SELECTOR = fields(matchLabels=LABELS, matchExpressions=listed(EXPRESSION))

SECCOMP = fields(["type"], type={"enum": ["RuntimeDefault", "Localhost", "Unconfined"]}, localhostProfile=TEXT)
PROBE = fields(httpGet=fields(["port"], path=TEXT, port=PORT_OR_NAME, scheme=TEXT), initialDelaySeconds=NUMBER,
               periodSeconds=NUMBER, timeoutSeconds=NUMBER, failureThreshold=NUMBER)
ENV = fields(["name"], name=TEXT, value=TEXT,
             valueFrom=fields(fieldRef=fields(["fieldPath"], fieldPath=TEXT),
                              secretKeyRef=fields(["name", "key"], name=NAME, key=TEXT)))
CONTAINER = fields(
    ["name", "image"], name=NAME, image={"type": "string", "pattern": r"^[^\s:]+(:[0-9]+)?(/[^\s:]+)*:[\w][\w.-]*$"},
    imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]}, command=listed(TEXT), args=listed(TEXT), env=listed(ENV),
    ports=listed(fields(["containerPort"], name=PORT_OR_NAME, containerPort=PORT, protocol=TEXT)),
    livenessProbe=PROBE, readinessProbe=PROBE,
    resources=fields(limits={"type": "object", "additionalProperties": QUANTITY},
                     requests={"type": "object", "additionalProperties": QUANTITY}),
    securityContext=fields(allowPrivilegeEscalation=FLAG, readOnlyRootFilesystem=FLAG, privileged=FLAG, runAsUser=NUMBER,
                           capabilities=fields(drop=listed(TEXT), add=listed(TEXT)), seccompProfile=SECCOMP),
    volumeMounts=listed(fields(["name", "mountPath"], name=NAME, mountPath=TEXT, readOnly=FLAG, subPath=TEXT)))
POD = fields(
    ["containers"], containers=listed(CONTAINER), serviceAccountName=NAME, terminationGracePeriodSeconds=NUMBER,
    securityContext=fields(runAsNonRoot=FLAG, runAsUser=NUMBER, runAsGroup=NUMBER, fsGroup=NUMBER, seccompProfile=SECCOMP),
    imagePullSecrets=listed(fields(["name"], name=NAME)), priorityClassName=NAME, nodeSelector=LABELS,
    tolerations=listed(fields(key=TEXT, operator=TEXT, value=TEXT, effect=TEXT)), affinity={"type": "object"},
    volumes=listed(fields(["name"], name=NAME, secret=fields(["secretName"], secretName=NAME), emptyDir=fields(),
                          configMap=fields(["name"], name=NAME))))
TEMPLATE = fields(["metadata", "spec"], metadata=fields(["labels"], labels=LABELS, annotations=TEXTS), spec=POD)
RULE = fields(["apiGroups", "resources", "verbs"], apiGroups=listed(TEXT), resources=listed(TEXT), verbs=listed(TEXT))
BINDING = dict(metadata=METADATA, roleRef=fields(["apiGroup", "kind", "name"], apiGroup=TEXT, kind=TEXT, name=NAME),
               subjects=listed(fields(["kind", "name", "namespace"], kind=TEXT, name=NAME, namespace=NAME)))
PEER = fields(podSelector=SELECTOR, namespaceSelector=SELECTOR,
              ipBlock=fields(["cidr"], cidr=TEXT, **{"except": listed(TEXT)}))

KINDS = {
    ("v1", "ServiceAccount"): dict(metadata=METADATA),
    ("v1", "Namespace"): dict(metadata=METADATA),
    ("v1", "Secret"): dict(metadata=METADATA, stringData=TEXTS, type=TEXT),
    ("v1", "Service"): dict(metadata=METADATA, spec=fields(
        ["selector", "ports"], type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}, selector=LABELS,
        ports=listed(fields(["port"], name=PORT_OR_NAME, port=PORT, targetPort=PORT_OR_NAME, protocol=TEXT)))),
    ("apps/v1", "Deployment"): dict(metadata=METADATA, spec=fields(
        ["selector", "template"], replicas=NUMBER, selector=SELECTOR, template=TEMPLATE)),
    ("rbac.authorization.k8s.io/v1", "Role"): dict(metadata=METADATA, rules=listed(RULE)),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): dict(metadata=METADATA, rules=listed(RULE)),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): BINDING,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): BINDING,
    ("networking.k8s.io/v1", "NetworkPolicy"): dict(metadata=METADATA, spec=fields(
        ["podSelector", "policyTypes"], podSelector=SELECTOR, policyTypes=listed({"enum": ["Ingress", "Egress"]}),
        ingress=listed(fields(**{"from": listed(PEER)}, ports=listed(fields(protocol=TEXT, port=PORT_OR_NAME)))))),
}
for version in ("policy/v1", "policy/v1beta1"):
    KINDS[version, "PodDisruptionBudget"] = dict(metadata=METADATA, spec=fields(
        ["selector"], minAvailable=NUMBER, maxUnavailable=NUMBER, selector=SELECTOR))


def schema_of(document):
    """None: a kind that the charts should not make."""
    properties = KINDS.get((document.get("apiVersion"), document.get("kind")))
    if properties is None:
        return None
    return fields(["metadata"], apiVersion=TEXT, kind=TEXT, **properties)
