// Short names of kinds, as kubectl has them but for "no", for labels in little room.

/** @type {Record<string, string>} */
const SHORT = {
  Pod: "po", Deployment: "deploy", ReplicaSet: "rs", StatefulSet: "sts", DaemonSet: "ds",
  Job: "job", CronJob: "cj", Node: "node", Namespace: "ns", Service: "svc", ConfigMap: "cm",
  Secret: "secret", Endpoints: "ep", EndpointSlice: "eps", Ingress: "ing", Event: "ev",
  HorizontalPodAutoscaler: "hpa", PodDisruptionBudget: "pdb", PersistentVolume: "pv",
  PersistentVolumeClaim: "pvc", ReplicationController: "rc", ServiceAccount: "sa",
  StorageClass: "sc", CustomResourceDefinition: "crd", Lease: "lease", ResourceQuota: "quota",
  Certificate: "cert", CertificateSigningRequest: "csr", ClusterOperator: "co", Machine: "mach",
  NetworkPolicy: "netpol",
};

/** @param {string} kind */
export const shortKind = (kind) =>
  Object.hasOwn(SHORT, kind) ? SHORT[kind] : kind.toLowerCase().slice(0, 8) || "?";

/** What stands for an object in lists: "deploy/web".
 * @param {{kind: string, name: string}} object */
export const shortObject = (object) => `${shortKind(object.kind)}/${object.name}`;
